// Polling that pauses while the page is hidden, with random delays and backoff.

/** Resolves after `milliseconds`. Rejects when `signal` is aborted. */
export function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });
}

/** A random number of milliseconds up to `limit`. */
export const randomUpTo = (limit) => Math.random() * limit;

/**
 * The delay before a retry, in milliseconds: doubles from 0.5 s to at most 15 s. Half of it is random, so that pages
 * that failed at the same time do not retry at the same time.
 */
export function backoff(failures) {
  const maximum = Math.min(15_000, 500 * 2 ** failures);
  return maximum / 2 + randomUpTo(maximum / 2);
}

/**
 * Calls `step` at once and then repeatedly. `step` resolves to the delay until the next call in milliseconds, or to
 * null to stop.
 * A hidden page does not poll; it polls as soon as it is shown. Two calls never run at the same time.
 *
 * Returns `runNow()`, which polls at once or joins the call in progress, and `stop()`.
 */
export function poll(step) {
  let timer = null;
  let running = null;
  let stopped = false;

  function run() {
    clearTimeout(timer);
    timer = null;
    if (stopped) return Promise.resolve();
    running ??= Promise.resolve(step()).then((delay) => {
      running = null;
      if (delay === null) return stop();
      timer = setTimeout(() => (document.hidden ? null : run()), delay);
    });
    return running;
  }

  function stop() {
    stopped = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", onShown);
  }

  const onShown = () => document.hidden || run();
  document.addEventListener("visibilitychange", onShown);
  run();
  return { runNow: run, stop };
}
