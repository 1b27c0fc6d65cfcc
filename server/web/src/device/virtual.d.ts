declare module "virtual:runtime" {
  /** Where the compressed wasm is, from the page on. */
  const address: string;
  export default address;
}
