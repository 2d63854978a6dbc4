// Waiting and polling, as the client does it: not on a hidden page.

export { backoff, poll, randomUpTo, sleep } from "../../client/index.js";
