// Repeats a step while somebody looks at the page.

/** Resolves after some milliseconds, or rejects when `signal` aborts. */
export function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });
}

/** A random number of milliseconds up to `limit`. */
export const upTo = (limit) => Math.random() * limit;

/** Grows from half a second to 15 seconds, half of it random: a crowd that failed together comes back apart. */
export function backOff(failures) {
  const longest = Math.min(15_000, 500 * 2 ** failures);
  return longest / 2 + upTo(longest / 2);
}

/**
 * Calls `step` at once and then again and again: it resolves to the milliseconds until the next
 * time, or to null when there is nothing more to see. A hidden page rests; it looks again when it
 * is shown. A step never runs twice at the same time.
 */
export function repeat(step) {
  let timer = null;
  let running = null;
  let over = false;

  function run() {
    clearTimeout(timer);
    timer = null;
    if (over) return Promise.resolve();
    running ??= Promise.resolve(step()).then((wait) => {
      running = null;
      if (wait === null) return stop();
      timer = setTimeout(() => (document.hidden ? null : run()), wait);
    });
    return running;
  }

  function stop() {
    over = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", onShown);
  }

  const onShown = () => document.hidden || run();
  document.addEventListener("visibilitychange", onShown);
  run();
  return { now: run, stop };
}
