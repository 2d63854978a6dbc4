// What tests outside of Rust share: waiting with a deadline.

const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time));

/** Asks until `look` answers `{done: true, value}`; fails with what a look saw that began when the time was over. */
export async function eventually(what, look, { within = 30_000 } = {}) {
  const deadline = Date.now() + within;
  for (;;) {
    const last = Date.now() > deadline;
    const seen = await look();
    if (seen.done) return seen.value;
    if (last) throw new Error(`${what} did not happen; last seen: ${JSON.stringify(seen.value)}`);
    await sleep(100);
  }
}

/** What `ask` resolves to, `{status, headers, …}`; a server that is not ready is asked again when it said. */
export async function untilReady(ask, { within = 30_000 } = {}) {
  const deadline = Date.now() + within;
  for (;;) {
    const answer = await ask();
    const wait = Number(answer.headers.get("retry-after")) * 1_000;
    const again = answer.status === 503 && wait > 0 && Date.now() + wait < deadline;
    if (!again) return answer;
    await sleep(wait);
  }
}
