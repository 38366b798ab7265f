// A cold node executor: `net` and newline JSON; with `--sdk` the agent's SDK as well.
//
// Serves the listening socket that is its standard input. `execute_prompt` makes it stream an
// event every `every_ms` until the connection ends; each carries the time it was made, in
// nanoseconds of the monotonic clock. No types are written here, so that node runs it as it is.

import net from "node:net";

if (process.argv.includes("--sdk")) await import("@anthropic-ai/claude-agent-sdk");

const ticks = process.argv.indexOf("--every-ms");
const everyMs = ticks < 0 ? 0 : Number(process.argv[ticks + 1]);

function stream(socket, taskId) {
  let sequence = 0;
  const timer = setInterval(() => {
    sequence += 1;
    const event = { kind: "block_delta", block_id: `${taskId}-b1`, index: sequence, text: `@${process.hrtime.bigint()}@` };
    const params = { session_token: "token", task_id: taskId, sequence, timestamp: Date.now(), event };
    socket.write(JSON.stringify({ jsonrpc: "2.0", method: "report_message", params }) + "\n");
  }, everyMs);
  socket.on("close", () => clearInterval(timer));
}

const server = net.createServer((socket) => {
  let rest = "";
  socket.setEncoding("utf8");
  socket.on("error", () => socket.destroy());
  socket.on("data", (chunk) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const message = JSON.parse(line);
      if (message.method === "ping") {
        const result = { pong: true, timestamp: Date.now() };
        socket.write(JSON.stringify({ jsonrpc: "2.0", id: message.id, result }) + "\n");
      } else if (message.method === "execute_prompt") {
        stream(socket, message.params.task_id);
      }
    }
  });
});
server.listen({ fd: 0 });
