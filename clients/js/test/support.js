// A `fetch` that answers as a server would, and time that only simulated timers pass.

import { createClient } from "@stampede/client";

export const START = Date.parse("2030-01-01T00:00:00Z");
export const TICKET = { ticket: "t-1", order_no: "demo.1", expires_at: "2030-01-01T00:10:00Z" };
export const ORDER = { order_no: "demo.1", status: "queued" };
export const problem = (status, code, headers) => new Response(JSON.stringify({ code }), { status, headers });

/** Answers requests by the last part of their path. A handler gets the body and how often it was called before. */
export function fakeFetch(handlers) {
  const requests = [];
  const fetch = async (url, { method, body, headers, keepalive }) => {
    const { pathname, search } = new URL(url);
    const name = pathname.split("/").at(-1);
    const calls = requests.filter((request) => request.name === name).length;
    requests.push({ name, search, method, headers, keepalive, body: body && JSON.parse(body), at: Date.now() });
    const answer = await handlers[name](body && JSON.parse(body), calls);
    return answer instanceof Response ? answer : new Response(JSON.stringify(answer));
  };
  return { fetch, requests };
}

export const gate = (fields) => ({
  phase: "open", start_key: "k", sold_out: [], version: 1, jitter_ms: 0,
  server_time: new Date(START).toISOString(), starts_at: new Date(START).toISOString(), ...fields,
});

export const open = (handlers) => {
  const { fetch, requests } = fakeFetch({ "gate.json": () => gate(), ticket: () => TICKET, ...handlers });
  return { client: createClient({ baseUrl: "https://sale.example/", token: () => "jwt", fetch, now: () => Date.now() }), requests };
};

/** Resolves to what `attempt` does, while timers wait in simulated time only. */
export async function simulate(context, attempt) {
  context.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  let isSettled = false;
  const settle = () => (isSettled = true);
  const running = attempt();
  running.then(settle, settle);
  while (!isSettled) {
    for (let turns = 0; turns < 30; turns += 1) await new Promise(setImmediate);
    context.mock.timers.tick(100);
  }
  context.mock.timers.reset();
  return running;
}

/** Answers the first reservation not at all, and the others with this refusal. */
export const refuseAfterSilence = (code, status = 409) => (_, calls) => {
  if (calls === 0) throw new TypeError("connection lost");
  return problem(status, code);
};
export const lookups = (requests) => requests.filter(({ name }) => name === "demo.1");
