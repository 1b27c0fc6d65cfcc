// The page is built into the Python package, server/web/dist/, so that users need no node. Addresses stay relative:
// the server may live under a prefix. `npm run dev` serves the sources in front of a scanline at port 8000.
import { defineConfig } from "vite";
import { runtime, withoutItsOwn } from "./runtime.ts";

export default defineConfig({
  base: "./",
  plugins: [runtime()],
  worker: { format: "es", plugins: () => [withoutItsOwn()] },
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
  server: { proxy: { "/v1": { target: "http://127.0.0.1:8000", ws: true } } },
});
