declare module "virtual:runtime" {
  /** The URL of the compressed wasm, relative to the page (runtime.ts). */
  const url: string;
  export default url;
}
