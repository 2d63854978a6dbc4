// Requests about sign-in, to this origin or to the shop's. They send no token.

const TIMEOUT_MS = 10_000;

/** A signal that aborts a request after 10 s. */
export function timeLimit() {
  const controller = new AbortController();
  setTimeout(() => controller.abort(), TIMEOUT_MS);
  return controller.signal;
}

/** Resolves to the status and the JSON document (or null). Throws if there is no answer within 10 s. */
export async function getJson(url, { credentials }) {
  const headers = { accept: "application/json" };
  const response = await fetch(url, { credentials, headers, redirect: "error", signal: timeLimit() });
  return { status: response.status, data: await response.json().catch(() => null) };
}
