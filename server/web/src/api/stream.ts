// The websocket: jobs side by side on one connection. When it drops, it is opened again and every job that is not
// done is asked for again with its seed: the same seed paints the same bytes, so the page goes on where it was.

import { say, withdraw } from "../look/notice";
import { socketAddress } from "./address";
import { Refusal, refusalOf, Unreachable } from "./errors";
import { call } from "./http";
import { keyProtocols } from "./key";
import { readFrame, type Frame } from "./frames";
import { backOff, wait } from "./wait";

const LOST = "The connection was lost. Trying again; the same seed goes on with the same pixels.";

export interface Started {
  job: number;
  model: string;
  n: number;
  height: number;
  width: number;
  channels: number;
  seed: string;
}

/** What a job is asked for; the seed is text, because it may be larger than a number holds. */
export interface Asked {
  type: "generate" | "complete";
  seed?: string;
  [field: string]: unknown;
}

/** What a job tells. After `ended` or `failed` it tells nothing. */
export interface Listener {
  started?(started: Started): void;
  frame?(frame: Frame): void;
  image?(index: number, bitsPerDim: number | null): void;
  other?(message: Record<string, unknown>): void;
  ended?(cancelled: boolean): void;
  failed?(refusal: Refusal): void;
}

interface Job {
  id: number;
  asked: Asked;
  listener: Listener;
  cancelled: boolean;
}

let socket: WebSocket | undefined;
let opening: Promise<void> | undefined;
let next = 0;
const jobs = new Map<number, Job>(); // not yet ended, by id
const numbers = new Map<number, Job>(); // by the number that its frames have

/** Begins a job; the function that comes back ends it early. */
export function begin(asked: Asked, listener: Listener): () => void {
  const job = { id: next++, asked, listener, cancelled: false };
  jobs.set(job.id, job);
  if (socket?.readyState === WebSocket.OPEN) ask(job);
  else void open();
  return () => cancel(job);
}

function cancel(job: Job): void {
  if (!jobs.has(job.id) || job.cancelled) return;
  job.cancelled = true;
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ type: "cancel", id: job.id }));
  else end(job, () => job.listener.ended?.(true));
}

function ask(job: Job): void {
  const { seed, ...fields } = job.asked;
  const text = JSON.stringify({ ...fields, id: job.id });
  socket!.send(seed === undefined ? text : `${text.slice(0, -1)},"seed":${BigInt(seed)}}`);
}

/** Opens the connection, again and again until it stands, and asks for all that is not done. */
function open(): Promise<void> {
  opening ??= untilOpen().finally(() => (opening = undefined));
  return opening;
}

async function untilOpen(): Promise<void> {
  for (let failures = 0; jobs.size > 0; ) {
    try {
      if (failures > 0) await call("v1/models"); // a handshake does not say why it fails, this does; it asks for a key
      await connect();
      withdraw(LOST);
      for (const job of [...jobs.values()]) ask(job);
      return;
    } catch (error) {
      failures++;
      if (failures === 1) continue;
      const passing = error instanceof Unreachable || (error instanceof Refusal && error.status === 503);
      if (!passing && error instanceof Refusal) return refuseAll(error);
      say(LOST);
      await wait(backOff(failures - 1));
    }
  }
  withdraw(LOST);
}

function connect(): Promise<void> {
  return new Promise((resolve, reject) => {
    const opened = new WebSocket(socketAddress("v1/images/stream"), keyProtocols());
    opened.binaryType = "arraybuffer";
    opened.onopen = () => {
      socket = opened;
      resolve();
    };
    opened.onmessage = ({ data }) => (typeof data === "string" ? hear(JSON.parse(data)) : paint(data));
    opened.onclose = () => {
      reject(new Unreachable());
      if (socket !== opened) return;
      socket = undefined;
      numbers.clear();
      for (const job of [...jobs.values()].filter(({ cancelled }) => cancelled)) {
        end(job, () => job.listener.ended?.(true));
      }
      if (jobs.size > 0) {
        say(LOST);
        void open();
      }
    };
  });
}

function refuseAll(refusal: Refusal): void {
  for (const job of [...jobs.values()]) end(job, () => job.listener.failed?.(refusal));
}

function end(job: Job, tell: () => void): void {
  jobs.delete(job.id);
  for (const [number, other] of numbers) if (other === job) numbers.delete(number);
  tell();
}

function paint(data: ArrayBuffer): void {
  const frame = readFrame(data);
  numbers.get(frame.job)?.listener.frame?.(frame);
}

function hear(message: Record<string, any>): void {
  const job = jobs.get(message.id);
  if (!job) return;
  const { listener, asked } = job;
  switch (message.type) {
    case "started": {
      numbers.set(message.job, job);
      asked.seed ??= String(message.seed); // one that the server drew is small enough for a number
      return listener.started?.({ ...(message as Started), seed: asked.seed });
    }
    case "image":
      return listener.image?.(message.index, message.bits_per_dim);
    case "done":
      return end(job, () => listener.ended?.(Boolean(message.cancelled)));
    case "error":
      return end(job, () => listener.failed?.(refusalOf(message)));
    default:
      return listener.other?.(message);
  }
}
