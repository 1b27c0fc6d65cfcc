// A .npy file (format 1.0) of uint8: what numpy.save writes.

export function npy(bytes: Uint8Array, shape: number[]): Blob {
  const tuple = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  const about = `{'descr': '|u1', 'fortran_order': False, 'shape': (${tuple}), }`;
  const head = `\x93NUMPY\x01\x00`;
  const length = Math.ceil((head.length + 2 + about.length + 1) / 64) * 64 - head.length - 2;
  const text = `${head}${String.fromCharCode(length & 255, length >> 8)}${about.padEnd(length - 1)}\n`;
  return new Blob([Uint8Array.from(text, (letter) => letter.charCodeAt(0)), bytes as BlobPart]);
}
