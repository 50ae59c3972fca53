// A small real service for Restate, with everything in it that a run can go through: service.mjs PORT FOLDER. Started
// by provider_case.py, which tells handlers by files in the folder how long to wait.
import { existsSync, writeFileSync } from "node:fs";

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
const released = (ctx) => existsSync(`${process.argv[3]}/${pawlRun(ctx)}.go`);
// Works, without letting Restate know: it is not suspended meanwhile.
const work = async (ctx) => { while (!released(ctx)) await new Promise((done) => setTimeout(done, 20)); };
// Is suspended until the test resolves it, under the id that it finds in a file.
const hold = async (ctx) => {
  const { id, promise } = ctx.awakeable();
  await ctx.run("note", () => writeFileSync(`${process.argv[3]}/${pawlRun(ctx)}.awakeable`, id));
  return promise;
};
const retrying = (retryPolicy, handler) => restate.handlers.handler({
  retryPolicy: { exponentiationFactor: 1, maxAttempts: 1_000_000, ...retryPolicy },
  inactivityTimeout: 3_600_000,  // an attempt that works is not asked to let itself be suspended
}, handler);
const starts = new Map();  // by run: how often its handler began from nothing

const demo = restate.service({
  name: "Demo",
  handlers: {
    double: async (ctx, input) => {
      await ctx.run("count", () => { starts.set(pawlRun(ctx), (starts.get(pawlRun(ctx)) ?? 0) + 1); });
      return { doubled: input.n * 2, run: pawlRun(ctx), starts: starts.get(pawlRun(ctx)) };
    },
    retries: retrying({ initialInterval: 500 }, async (ctx) => {
      attempt(ctx);
      if (!released(ctx)) throw new Error("not yet");
      return { attempts: attempts.get(pawlRun(ctx)) };
    }),
    retriesSlowly: retrying({ initialInterval: 100 }, async (ctx) => {
      if (attempt(ctx) === 1) throw new Error("not yet");
      await work(ctx);
      return "at last";
    }),
    sleeps: async (ctx) => {
      while (!await ctx.run("released", () => released(ctx))) await ctx.sleep(1000);
      return "slept";
    },
    holds: async (ctx) => hold(ctx),
    fails: async () => { throw new restate.TerminalError("payload rejected", { errorCode: 422 }); },
    never: retrying({ initialInterval: 100, maxAttempts: 3, onMaxAttempts: "pause" },
                    async () => { throw new Error("always transient"); }),
    notSoon: retrying({ initialInterval: 3_600_000, maxInterval: 3_600_000 },
                      async () => { throw new Error("always transient"); }),
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
    hangs: async (ctx, input) => {
      if (input?.works_first) await work(ctx);
      await ctx.awakeable().promise;
    },
  },
});

const lock = restate.object({
  name: "Lock",
  handlers: { hold: async (ctx) => { await hold(ctx); return ctx.key; } },
});

const order = restate.workflow({
  name: "Order",
  handlers: {
    run: async (ctx, input) => {
      await ctx.run("ask", () => ask(pawlRun(ctx) ?? ctx.key, input, { kind: "handler", address: "decide" }));
      const decision = await ctx.promise("decision");
      if (decision.decision !== "approved")
        throw new restate.TerminalError(`${decision.decision}: ${decision.approval}`);
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
