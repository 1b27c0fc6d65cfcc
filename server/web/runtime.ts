// A vite plugin that ships the wasm of onnxruntime-web as one compressed asset: 3.7 instead of 14.2 MB in the
// repository, in the wheel and on the wire, also behind proxies that do not compress. The page decompresses it. Its
// name has the hash of the wasm, because another version of gzip may compress the same file to other bytes.

import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import type { Plugin } from "vite";

const WASM = createRequire(import.meta.url).resolve("onnxruntime-web/ort-wasm-simd-threaded.wasm");
const NAME = "virtual:runtime"; // a module that exports the URL of the asset, relative to the page

/** Provides the module NAME and emits the asset. */
export function runtime(): Plugin {
  const compressed = () => gzipSync(readFileSync(WASM), { level: 9 });
  const hash = () => createHash("sha256").update(readFileSync(WASM)).digest("hex").slice(0, 8);
  let building = true;
  return {
    name: "runtime",
    configResolved: ({ command }) => void (building = command === "build"),
    resolveId: (id) => (id === NAME ? `\0${NAME}` : undefined),
    load(id) {
      if (id !== `\0${NAME}`) return;
      if (!building) return 'export default "runtime.wasm.gz"';
      const fileName = `assets/runtime-${hash()}.wasm.gz`;
      const file = this.emitFile({ type: "asset", fileName, source: compressed() });
      return `export default import.meta.ROLLUP_FILE_URL_${file}`;
    },
    configureServer: ({ middlewares }) =>
      void middlewares.use("/runtime.wasm.gz", (_, response) => response.end(compressed())),
  };
}

/** Removes the URL of the wasm from onnxruntime-web's own code, which would emit it a second time, uncompressed. */
export function withoutOwnWasm(): Plugin {
  return {
    name: "without-own-wasm",
    transform(code, id) {
      if (!id.includes("onnxruntime-web")) return;
      return code.replaceAll('new URL("ort-wasm-simd-threaded.wasm",import.meta.url)', 'new URL("data:,")');
    },
  };
}
