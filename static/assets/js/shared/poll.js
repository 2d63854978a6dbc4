// Repeats a step while somebody looks at the page.

/** Resolves after some milliseconds, or rejects when `signal` aborts. */
export function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });
}

/** A random number of milliseconds up to `limit`. */
export const randomUpTo = (limit) => Math.random() * limit;

/** Grows from half a second to 15 seconds, half of it random: a crowd that failed together comes back apart. */
export function backoff(failures) {
  const maximum = Math.min(15_000, 500 * 2 ** failures);
  return maximum / 2 + randomUpTo(maximum / 2);
}

/**
 * Calls `step` at once and then again and again: it resolves to the milliseconds until the next
 * time, or to null when there is nothing more to see. A hidden page rests; it looks again when it
 * is shown. A step never runs twice at the same time.
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
