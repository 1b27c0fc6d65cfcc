// A vite plugin that builds the page a second time, as offline.js: one script with its styles and its worker in it, which
// `scanline export --page` writes into a file of its own. Modules do not load from file: URLs.

import { resolve } from "node:path";
import { build, type Plugin } from "vite";

export function offline(): Plugin {
  let outDir = "";
  return {
    name: "offline",
    apply: "build",
    configResolved: (config) => void (outDir = config.build.outDir),
    async closeBundle() {
      await build({
        configFile: false,
        logLevel: "warn",
        base: "./",
        resolve: { alias: { "./start_worker": resolve("src/offline/start_worker.ts") } },
        publicDir: false,
        worker: { format: "iife" },
        build: {
          outDir,
          emptyOutDir: false,
          target: "es2022",
          modulePreload: false,
          cssCodeSplit: false,
          chunkSizeWarningLimit: 2000,
          lib: { entry: "src/offline/main.ts", formats: ["iife"], name: "scanline", fileName: () => "offline.js", cssFileName: "offline" },
        },
      });
    },
  };
}
