// What opening and saving files need: one script, loaded when a file is first opened or saved.

export { cleaned, openFile } from "./open";
export { zip } from "../pictures/zip";
export { FileError } from "./read";
export * from "./recipe";
export { restored } from "./restore";
