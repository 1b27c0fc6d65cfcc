// What a job is asked for, and what is reported of it.

/** A job's request; the seed is text, because it can exceed what a number holds exactly. */
export interface JobRequest {
  type: "generate" | "complete";
  seed: string;
  [field: string]: unknown;
}

/** Bytes of one image, from position `first` on. */
export interface Frame {
  index: number;
  first: number;
  bytes: Uint8Array;
}

/** What the server reports of an image that is finished; null also stands for infinite. */
export interface FinishedImage {
  class: string | null; // asked for, or drawn; null where no class was asked for
  bitsPerDim: number | null;
  evidenceBits: number | null; // this and the next are null where nothing was completed
  effectiveParticles: number | null;
}

/** Called as the messages of a job arrive. */
export interface JobListener {
  frame?(frame: Frame): void;
  image?(index: number, finished: FinishedImage): void;
}
