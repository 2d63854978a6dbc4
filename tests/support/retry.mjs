// What tests outside of Rust share: waiting with a deadline.

const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time));

/** Asks until `look` answers `{done: true, value}`; fails with what a look saw that began when the time was over. */
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

/** What `ask` resolves to, `{status, headers, …}`; a server that is not ready is asked again when it said. */
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
