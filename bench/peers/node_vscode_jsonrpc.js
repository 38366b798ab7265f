/*
 * A peer of the wire group: the package vscode-jsonrpc.
 *
 * Its own framing is a Content-Length header; a reader and a writer of lines take its place here,
 * so that all servers speak the same bytes. Both do less than the ones they replace, which is in
 * the package's favour.
 *
 * Usage: node node_vscode_jsonrpc.js SOCKET_PATH
 */
'use strict';

const { once } = require('node:events');
const net = require('node:net');
const {
  AbstractMessageReader,
  AbstractMessageWriter,
  createMessageConnection,
  Disposable,
} = require('vscode-jsonrpc/node');

const FIRST_SEQUENCE = 1_000_000;

class LineReader extends AbstractMessageReader {
  constructor(socket) {
    super();
    this.socket = socket;
    this.partial = '';
    socket.setEncoding('utf8');
    socket.on('error', (error) => this.fireError(error));
    socket.on('close', () => this.fireClose());
  }

  listen(callback) {
    const onData = (chunk) => {
      const lines = (this.partial + chunk).split('\n');
      this.partial = lines.pop();
      for (const line of lines) {
        callback(JSON.parse(line));
      }
    };
    this.socket.on('data', onData);
    return Disposable.create(() => this.socket.off('data', onData));
  }
}

class LineWriter extends AbstractMessageWriter {
  constructor(socket) {
    super();
    this.socket = socket;
    socket.on('error', (error) => this.fireError(error));
    socket.on('close', () => this.fireClose());
  }

  async write(message) {
    if (!this.socket.write(JSON.stringify(message) + '\n')) {
      await once(this.socket, 'drain');
    }
  }

  end() {
    this.socket.end();
  }
}

async function emit(connection, count) {
  for (let sequence = FIRST_SEQUENCE; sequence < FIRST_SEQUENCE + count; sequence += 1) {
    await connection.sendNotification('report_message', {
      session_token: 's',
      task_id: 't',
      sequence,
      timestamp: Date.now(),
      event_type: 'block_delta',
      event_data: { id: 'b1', text: 'xxxx' },
    });
  }
  return { count };
}

function serve(socket) {
  /* Answers that wait for 'drain' each listen once: more than Node's warning expects. */
  socket.setMaxListeners(0);
  const connection = createMessageConnection(new LineReader(socket), new LineWriter(socket));
  let events = 0;
  connection.onNotification('report_message', () => {
    events += 1;
  });
  connection.onRequest('ping', () => ({ pong: true, timestamp: Date.now() }));
  connection.onRequest('count', () => ({ count: events }));
  connection.onRequest('emit', ({ count }) => emit(connection, count));
  connection.onError(() => socket.destroy());
  connection.onClose(() => connection.dispose());
  connection.listen();
}

net.createServer(serve).listen(process.argv[2]);
