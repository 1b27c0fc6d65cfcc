// A .zip archive of files that are stored as they are: PNGs are compressed already.

const CRC = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  return crc;
});
const DATE = 0x21; // 1980-01-01, the first that the format has: the same files give the same archive

export const crc32 = (bytes: Uint8Array): number =>
  ~bytes.reduce((crc, byte) => CRC[(crc ^ byte) & 255]! ^ (crc >>> 8), -1) >>> 0;

/** Values of two bytes (below 2^16) and four, little endian, each as [value, bytes]. */
function record(...fields: [number, 2 | 4][]): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(fields.reduce((sum, [, size]) => sum + size, 0)));
  let at = 0;
  for (const [value, size] of fields) {
    if (size === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += size;
  }
  return new Uint8Array(view.buffer);
}

/** Names are ASCII. */
export function zip(files: { name: string; bytes: Uint8Array<ArrayBuffer> }[]): Blob {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const directory: Uint8Array<ArrayBuffer>[] = [];
  const length = (of: Uint8Array[]) => of.reduce((sum, part) => sum + part.length, 0);
  for (const { name, bytes } of files) {
    const text = new TextEncoder().encode(name);
    const offset = length(parts);
    const size = bytes.length;
    // version, flags, method (stored), time, date, CRC, both sizes, lengths of name and extra field
    const common = [[20, 2], [0, 2], [0, 2], [0, 2], [DATE, 2], [crc32(bytes), 4], [size, 4], [size, 4]] as [number, 2 | 4][];
    common.push([text.length, 2], [0, 2]);
    parts.push(record([0x04034b50, 4], ...common), text, bytes);
    // length of the comment, disk, both attributes, offset of the file
    const rest: [number, 2 | 4][] = [[0, 2], [0, 2], [0, 2], [0, 4], [offset, 4]];
    directory.push(record([0x02014b50, 4], [20, 2], ...common, ...rest), text);
  }
  const n = files.length;
  const end = record([0x06054b50, 4], [0, 2], [0, 2], [n, 2], [n, 2], [length(directory), 4], [length(parts), 4], [0, 2]);
  return new Blob([...parts, ...directory, end], { type: "application/zip" });
}
