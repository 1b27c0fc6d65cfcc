// Draws what has changed, all of it together, at most ten times a second. The browser may run beside the server on one
// machine: whatever it draws more often is time that the server does not have for the images.

const PAUSE = 100; // milliseconds from one redraw to the next

export interface Drawable {
  /** Draws everything that has changed since the last call. */
  draw(): void;
}

const changed = new Set<Drawable>();
let isScheduled = false;
let earliest = 0; // when the next redraw may be, in the time of performance.now()

/** Calls `draw` of the object with the next redraw: with the screen's next frame if nothing was drawn for a while. */
export function redraw(drawable: Drawable): void {
  changed.add(drawable);
  if (isScheduled) return;
  isScheduled = true;
  const pause = earliest - performance.now();
  if (pause > 0) setTimeout(() => requestAnimationFrame(drawChanged), pause);
  else requestAnimationFrame(drawChanged);
}

function drawChanged(): void {
  isScheduled = false;
  earliest = performance.now() + PAUSE;
  const drawables = [...changed];
  changed.clear();
  for (const drawable of drawables) drawable.draw();
}
