// A worker whose code is in the page: the worker of a file: URL could not be loaded.

import PageWorker from "../device/worker?worker&inline";

export const startWorker = (): Worker => new PageWorker();
