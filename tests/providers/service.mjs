// A small real service for Restate, with everything in it that a run can go through. Started by provider_case.py.
// The SDK wants this of a newer Node.
Promise.withResolvers ??= function withResolvers() {
  const out = {};
  out.promise = new Promise((resolve, reject) => Object.assign(out, { resolve, reject }));
  return out;
};
const restate = await import("@restatedev/restate-sdk");

const attempts = new Map();  // of this process: how often a run was tried
const pawlRun = (ctx) => ctx.request().headers.get("x-pawl-run");
const attempt = (ctx) => {
  const count = (attempts.get(pawlRun(ctx)) ?? 0) + 1;
  attempts.set(pawlRun(ctx), count);
  return count;
};
const starts = new Map();  // by run: how often its handler began from nothing

const demo = restate.service({
  name: "Demo",
  handlers: {
    double: async (ctx, input) => {
      await ctx.run("count", () => { starts.set(pawlRun(ctx), (starts.get(pawlRun(ctx)) ?? 0) + 1); });
      return { doubled: input.n * 2, run: pawlRun(ctx), starts: starts.get(pawlRun(ctx)) };
    },
    retries: async (ctx, input) => {
      if (attempt(ctx) <= input.failures) throw new Error("not yet");
      return { attempts: attempts.get(pawlRun(ctx)) };
    },
    retriesSlowly: async (ctx, input) => {
      if (attempt(ctx) === 1) throw new Error("not yet");
      await new Promise((done) => setTimeout(done, input.ms));
      return "at last";
    },
    sleeps: async (ctx, input) => { await ctx.sleep(input.ms); return "slept"; },
    fails: async () => { throw new restate.TerminalError("payload rejected", { errorCode: 422 }); },
    never: async () => { throw new Error("always transient"); },
    waits: async (ctx, input) => {
      const { id, promise } = ctx.awakeable();
      await ctx.run("ask", () => ask(pawlRun(ctx), input, { kind: "awakeable", address: id }));
      return { decided: await promise };
    },
    stubborn: async (ctx) => {
      for (;;) {
        try { await ctx.sleep(60000); } catch { await ctx.run("noticed", () => {}); }
      }
    },
    hangs: async (ctx) => { await ctx.awakeable().promise; },
  },
});

const lock = restate.object({
  name: "Lock",
  handlers: { hold: async (ctx, input) => { await ctx.sleep(input.ms); return ctx.key; } },
});

const order = restate.workflow({
  name: "Order",
  handlers: {
    run: async (ctx, input) => {
      await ctx.run("ask", () => ask(pawlRun(ctx) ?? ctx.key, input, { kind: "handler", address: "decide" }));
      const decision = await ctx.promise("decision");
      if (decision.decision !== "approved") throw new restate.TerminalError(`${decision.decision}: ${decision.approval}`);
      return { key: ctx.key, by: decision.by };
    },
    decide: async (ctx, decision) => { await ctx.promise("decision").resolve(decision); },
  },
});

// Has pawl ask people, as a service would that knows where pawl is and has a key of its own.
async function ask(run, input, callback) {
  const answer = await fetch(`${input.pawl}/runs/${run}/approvals`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${input.key}` },
    body: JSON.stringify({ approval: "sign-off", callback }),
  });
  if (!answer.ok) throw new restate.TerminalError(`pawl answered ${answer.status}: ${await answer.text()}`);
  return (await answer.json()).id;
}

restate.serve({ services: [demo, lock, order], port: Number(process.argv[2]) });
