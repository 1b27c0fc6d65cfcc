// A worker of this page's server; a page without one has ../offline/start_worker.ts in its place.

export const startWorker = (): Worker => new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
