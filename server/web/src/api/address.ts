// Where the API is: beside the page, whatever stands before it.

export const address = (path: string): URL => new URL(path, document.baseURI);

export function socketAddress(path: string): URL {
  const url = address(path);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url;
}
