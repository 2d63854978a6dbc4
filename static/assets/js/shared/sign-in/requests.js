// Requests about sign-in, to this origin or to the shop's. They send no token.

const TIMEOUT_MS = 10_000;

/** Resolves to the status and the JSON document (or null). Throws if there is no answer within 10 s. */
export async function getJson(url, { credentials }) {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(), TIMEOUT_MS);
  try {
    const headers = { accept: "application/json" };
    const response = await fetch(url, { credentials, headers, redirect: "error", signal: controller.signal });
    return { status: response.status, data: await response.json().catch(() => null) };
  } finally {
    clearTimeout(timer);
  }
}
