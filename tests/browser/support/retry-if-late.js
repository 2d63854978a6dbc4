// Repeats tests that measure times.

/**
 * Runs `measure` up to three times, each from the beginning: a defect makes every run late, a stalled machine does not.
 * `measure` resolves to a description of what was late, or to nothing. An exception fails the test at once.
 */
export async function retryIfLate(measure) {
  const problems = [];
  while (problems.length < 3) {
    const problem = await measure();
    if (!problem) return;
    problems.push(problem);
  }
  throw new Error(problems.join("\n"));
}
