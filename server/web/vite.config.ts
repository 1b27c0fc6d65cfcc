// `npm run build` writes the page to dist/, which is part of the Python package, so that users do not need node. URLs
// are relative, because a proxy may add a prefix. docs.html is the API documentation at /docs. `npm run dev` serves the sources; a server on port 8000 answers /v1.
import { defineConfig } from "vite";
import { offline } from "./offline.ts";

export default defineConfig({
  base: "./",
  plugins: [offline()],
  worker: { format: "es" },
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 2000, // kB: Swagger UI
    rolldownOptions: { input: ["index.html", "docs.html"] },
  },
  server: { fs: { allow: ["../.."] }, proxy: { "/v1": { target: "http://127.0.0.1:8000", ws: true } } },
});
