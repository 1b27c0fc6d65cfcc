// Whole device pixels for each pixel of a picture, whatever the zoom: nothing is smeared, no row wider than others.

/** CSS pixels for one pixel of a picture, at least one device pixel, so that it is at most `room` wide. */
export function crisp(width: number, room: number): number {
  const density = window.devicePixelRatio || 1;
  return Math.max(1, Math.floor((room * density) / width)) / density;
}
