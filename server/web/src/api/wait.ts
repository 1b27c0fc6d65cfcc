// Waiting and trying again: twice as long each time, a little at random, so that not all pages knock at once.

export const wait = (seconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

/** Seconds before the try after `failures` failed ones. */
export const backOff = (failures: number): number =>
  Math.min(8, 0.5 * 2 ** Math.max(0, failures - 1)) * (0.75 + Math.random() / 2);
