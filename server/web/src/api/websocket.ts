// The websocket: jobs run concurrently on one connection. When it is lost, it is opened again and every unfinished job
// is sent again with its seed, until the server has loaded its model: the same seed paints the same bytes, so an image
// continues where it was.

import { clearNotice, showNotice } from "../base/notice";
import { ApiError, apiUrl, backOff, callOnce, isTemporary, readError, Unreachable, wait } from "./http";
import { keyProtocols } from "./key";
import type { JobListener, JobRequest } from "./job";
import { local } from "./local";
import { allModels } from "./models";

const LOST = "Connection lost. Reconnecting; the same seed continues the same images.";
const FRAME_HEADER = 12; // bytes
// Codes of errors after which the same job succeeds: the server loads its model, shuts down, or has replaced its engine.
const TEMPORARY = ["not_ready", "shutting_down", "model_changed"];
const PAUSE = 1; // seconds before a job is sent again after such an error

interface Job {
  id: number;
  request: JobRequest;
  listener: JobListener;
  cancelled: boolean;
  isWaiting: boolean; // to be sent again: the server does not have it
  resolve(cancelled: boolean): void;
  reject(error: ApiError): void;
}

let socket: WebSocket | undefined;
let opening: Promise<void> | undefined;
let nextId = 0;
const jobs = new Map<number, Job>(); // unfinished, by id
const framed = new Map<number, Job>(); // by the number in their frames

/** Runs a job to its end. Returns whether it was cancelled, by the server or by aborting `signal`; throws ApiError. */
export function runJob(request: JobRequest, listener: JobListener, signal: AbortSignal): Promise<boolean> {
  if (local) return local.run(request, listener, signal);
  return new Promise((resolve, reject) => {
    const job = { id: nextId++, request, listener, cancelled: false, isWaiting: false, resolve, reject };
    jobs.set(job.id, job);
    signal.addEventListener("abort", () => cancel(job), { once: true });
    if (socket?.readyState === WebSocket.OPEN) send(job);
    else void open();
  });
}

function cancel(job: Job): void {
  if (!jobs.has(job.id)) return;
  job.cancelled = true;
  if (socket?.readyState === WebSocket.OPEN && !job.isWaiting) socket.send(JSON.stringify({ type: "cancel", id: job.id }));
  else remove(job).resolve(true);
}

function send(job: Job): void {
  job.isWaiting = false;
  // What the form leaves open is said: the server would paint with the model's defaults.
  const { seed, class: name = "none", guidance = 1, ...fields } = job.request;
  if (fields.type === "generate") fields["best_of"] ??= 1;
  const text = JSON.stringify({ ...fields, class: name, guidance, id: job.id });
  socket!.send(`${text.slice(0, -1)},"seed":${BigInt(seed)}}`);
}

/** Sends a job again when no model is loading; a connection that opens meanwhile sends it earlier. */
async function sendLater(job: Job): Promise<void> {
  job.isWaiting = true;
  try {
    await wait(PAUSE);
    await allModels();
  } catch (error) {
    if (jobs.has(job.id)) remove(job).reject(error as ApiError);
  }
  if (jobs.has(job.id) && job.isWaiting && socket?.readyState === WebSocket.OPEN) send(job);
}

function remove(job: Job): Job {
  jobs.delete(job.id);
  for (const [number, other] of framed) if (other === job) framed.delete(number);
  return job;
}

/** Opens the connection, with retries, and sends all unfinished jobs. */
function open(): Promise<void> {
  opening ??= untilOpen().finally(() => (opening = undefined));
  return opening;
}

async function untilOpen(): Promise<void> {
  for (let failures = 0; jobs.size > 0; ) {
    try {
      // a failed handshake gives no reason; an HTTP call does, and asks for a key
      if (failures > 0) await callOnce("v1/models");
      await connect();
      clearNotice(LOST);
      for (const job of [...jobs.values()]) send(job);
      return;
    } catch (error) {
      failures++;
      if (failures === 1) continue;
      if (error instanceof ApiError && !isTemporary(error)) {
        for (const job of [...jobs.values()]) remove(job).reject(error);
        return;
      }
      showNotice(LOST);
      await wait(backOff(failures - 1));
    }
  }
  clearNotice(LOST);
}

function connect(): Promise<void> {
  return new Promise((resolve, reject) => {
    const url = apiUrl("v1/images/stream");
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const opened = new WebSocket(url, keyProtocols());
    opened.binaryType = "arraybuffer";
    opened.onopen = () => {
      socket = opened;
      resolve();
    };
    opened.onmessage = ({ data }) => (typeof data === "string" ? receive(JSON.parse(data)) : receiveFrame(data));
    opened.onclose = () => {
      reject(new Unreachable());
      if (socket !== opened) return;
      socket = undefined;
      framed.clear();
      for (const job of [...jobs.values()]) if (job.cancelled) remove(job).resolve(true);
      if (jobs.size > 0) {
        showNotice(LOST);
        void open();
      }
    };
  });
}

/** A frame is little endian: u32 job number, u32 image index, u32 position of the first byte, then the bytes. */
function receiveFrame(data: ArrayBuffer): void {
  const header = new DataView(data, 0, FRAME_HEADER);
  const { listener } = framed.get(header.getUint32(0, true)) ?? {};
  const [index, first] = [header.getUint32(4, true), header.getUint32(8, true)];
  listener?.frame?.({ index, first, bytes: new Uint8Array(data, FRAME_HEADER) });
}

function receive(message: Record<string, any>): void {
  const job = jobs.get(message.id);
  if (!job) return;
  const { listener } = job;
  switch (message.type) {
    case "started":
      return void framed.set(message.job, job);
    case "image":
      return listener.image?.(message.index, {
        class: message.class,
        bitsPerDim: message.bits_per_dim,
        evidenceBits: message.evidence_bits ?? null,
        effectiveParticles: message.effective_particles ?? null,
      });
    case "done":
      return remove(job).resolve(Boolean(message.cancelled));
    case "error": {
      const error = readError(message);
      if (job.cancelled || !TEMPORARY.includes(error.code ?? "")) return remove(job).reject(error);
      return void sendLater(job);
    }
  }
}
