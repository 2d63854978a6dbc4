// Polling that pauses while the page is hidden.

import { poll as pollAlways } from "../../client/index.js";

export { backoff, randomUpTo, sleep } from "../../client/index.js";

const isPaused = () => document.hidden;

/** As the client's `poll`; a hidden page does not poll, and polls as soon as it is shown. */
export const poll = (step) => pauseWhileHidden(({ isPaused }) => pollAlways(step, { isPaused }), "runNow");

/**
 * Starts a poller of the client by `start({isPaused})`, and calls its method `runNow` when the page is shown.
 * Returns the poller.
 */
export function pauseWhileHidden(start, runNow) {
  const onShown = () => document.hidden || void poller[runNow]();
  document.addEventListener("visibilitychange", onShown);
  const poller = start({ isPaused });
  const stop = () => {
    document.removeEventListener("visibilitychange", onShown);
    poller.stop();
  };
  return { ...poller, stop };
}
