// The wasm of onnxruntime-web as one compressed file among the assets: 3.7 instead of 14.2 MB, in the repository, in
// the wheel and on the way, whatever the server in front can compress. The page unpacks it. Its name tells the wasm:
// another gzip may pack the same in other bytes.

import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import type { Plugin } from "vite";

const WASM = createRequire(import.meta.url).resolve("onnxruntime-web/ort-wasm-simd-threaded.wasm");
const NAME = "virtual:runtime"; // exports its address, from the page on

/** Gives the page the runtime's address, and the file at it. */
export function runtime(): Plugin {
  const packed = () => gzipSync(readFileSync(WASM), { level: 9 });
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
      const file = this.emitFile({ type: "asset", fileName, source: packed() });
      return `export default import.meta.ROLLUP_FILE_URL_${file}`;
    },
    configureServer: ({ middlewares }) => void middlewares.use("/runtime.wasm.gz", (_, answer) => answer.end(packed())),
  };
}

/** Takes from onnxruntime-web the addresses of its own copy, which would become an asset too. */
export function withoutItsOwn(): Plugin {
  return {
    name: "without-its-own",
    transform(code, id) {
      if (!id.includes("onnxruntime-web")) return;
      return code.replaceAll('new URL("ort-wasm-simd-threaded.wasm",import.meta.url)', 'new URL("data:,")');
    },
  };
}
