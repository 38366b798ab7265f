/*
 * A peer of the wire group: Node's `net` with one JSON object a line.
 *
 * A line that is cut by the end of a chunk is kept for the next one, and a client that reads slowly
 * holds the sender back. As it is usually written, each message is one `socket.write`; with
 * `--coalesce`, what a turn has to send leaves in few large writes.
 *
 * Usage: node node_net.js [--coalesce] SOCKET_PATH
 */
'use strict';

const { once } = require('node:events');
const net = require('node:net');

const FIRST_SEQUENCE = 1_000_000;
const COALESCE = process.argv.includes('--coalesce');
const WRITE_CHARACTERS = COALESCE ? 64 * 1024 : 1;

class Connection {
  constructor(socket) {
    this.socket = socket;
    this.partial = '';
    this.outgoing = '';
    this.events = 0;
    socket.setEncoding('utf8');
    socket.on('data', (chunk) => this.receive(chunk));
    socket.on('error', () => socket.destroy());
  }

  receive(chunk) {
    const text = this.partial === '' ? chunk : this.partial + chunk;
    let start = 0;
    for (let end; (end = text.indexOf('\n', start)) !== -1; start = end + 1) {
      this.dispatch(JSON.parse(text.slice(start, end)));
    }
    this.partial = start === text.length ? '' : text.slice(start);
    this.flush();
  }

  dispatch(message) {
    switch (message.method) {
      case 'report_message':
        this.events += 1;
        break;
      case 'ping':
        this.answer(message.id, { pong: true, timestamp: Date.now() });
        break;
      case 'count':
        this.answer(message.id, { count: this.events });
        break;
      case 'emit':
        void this.emit(message.id, message.params.count);
        break;
      default:
        this.send({
          jsonrpc: '2.0',
          id: message.id ?? null,
          error: { code: -32601, message: 'Method not found' },
        });
    }
  }

  /* Encodes at once; the bytes leave with the next flush. */
  send(message) {
    this.outgoing += JSON.stringify(message) + '\n';
  }

  answer(id, result) {
    this.send({ jsonrpc: '2.0', id, result });
    if (!COALESCE) {
      this.flush();
    }
  }

  /* False when the client does not keep up: wait for 'drain' before sending more. */
  flush() {
    if (this.outgoing === '') {
      return true;
    }
    const text = this.outgoing;
    this.outgoing = '';
    return this.socket.write(text);
  }

  async emit(id, count) {
    for (let sequence = FIRST_SEQUENCE; sequence < FIRST_SEQUENCE + count; sequence += 1) {
      this.send({
        jsonrpc: '2.0',
        method: 'report_message',
        params: {
          session_token: 's',
          task_id: 't',
          sequence,
          timestamp: Date.now(),
          event_type: 'block_delta',
          event_data: { id: 'b1', text: 'xxxx' },
        },
      });
      if (this.outgoing.length >= WRITE_CHARACTERS && !this.flush()) {
        await once(this.socket, 'drain');
      }
    }
    this.answer(id, { count });
    this.flush();
  }
}

net.createServer((socket) => new Connection(socket)).listen(process.argv.at(-1));
