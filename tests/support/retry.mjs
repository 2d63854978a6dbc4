// Polling and retries with a deadline, for the tests written in JavaScript.

const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time));

/**
 * Runs `probe` every 100 ms until it returns `{done: true, value}`, and returns the value. After `within` milliseconds,
 * runs it once more and throws with the last value.
 */
export async function eventually(what, probe, { within = 30_000 } = {}) {
  const deadline = Date.now() + within;
  for (;;) {
    const isLast = Date.now() > deadline;
    const result = await probe();
    if (result.done) return result.value;
    if (isLast) throw new Error(`${what} did not happen; last seen: ${JSON.stringify(result.value)}`);
    await sleep(100);
  }
}

/**
 * Returns the response of `send`, `{status, headers, …}`. Retries a 503 after its `Retry-After`, as long as that is
 * within `within` milliseconds.
 */
export async function untilReady(send, { within = 30_000 } = {}) {
  const deadline = Date.now() + within;
  for (;;) {
    const response = await send();
    const wait = Number(response.headers.get("retry-after")) * 1_000;
    const retry = response.status === 503 && wait > 0 && Date.now() + wait < deadline;
    if (!retry) return response;
    await sleep(wait);
  }
}
