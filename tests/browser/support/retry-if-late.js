// What takes its time is measured more than once.

import assert from "node:assert/strict";

/**
 * Measures up to three times, each from scratch: a page that is late is late every time, a machine that stalls is not.
 * `measure` resolves to a complaint, or to nothing when all came in time; what it throws counts at once.
 */
export async function retryIfLate(measure) {
  const problems = [];
  while (problems.length < 3) {
    const problem = await measure();
    if (!problem) return;
    problems.push(problem);
  }
  assert.fail(problems.join("\n"));
}
