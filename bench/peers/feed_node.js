/*
 * A peer of the feed group: Node's `net` and `http`, better-sqlite3 and ws.
 *
 * It takes events of executors, stores them, tells the clients of their session and acknowledges.
 * What a read brought is stored in one transaction; with `--row-by-row`, as it is usually written,
 * each event by itself; with `--no-store` not at all. The database is as better-sqlite3 makes it:
 * a write-ahead log that is synced when it is emptied (NORMAL), not with every commit.
 *
 * Usage: node feed_node.js [--row-by-row | --no-store] FOLDER PORT
 */
'use strict';

const http = require('node:http');
const net = require('node:net');
const path = require('node:path');
const { WebSocketServer } = require('ws');

const ROW_BY_ROW = process.argv.includes('--row-by-row');
const NO_STORE = process.argv.includes('--no-store');
const [FOLDER, PORT] = process.argv.slice(-2);

/* A session is known by its number, which is its executor's too. */
const sessions = [];

const storage = NO_STORE ? null : openStorage();

function openStorage() {
  const database = require('better-sqlite3')(path.join(FOLDER, 'events.db'));
  database.pragma('journal_mode = WAL');
  database.exec(
    'CREATE TABLE events (session INTEGER, sequence INTEGER, body TEXT,' +
      ' PRIMARY KEY (session, sequence))',
  );
  const insert = database.prepare('INSERT INTO events VALUES (?, ?, ?)');
  const store = (rows) => {
    for (const row of rows) {
      insert.run(row.session, row.sequence, row.body);
    }
  };
  return ROW_BY_ROW ? store : database.transaction(store);
}

class Executor {
  constructor(session) {
    this.session = session;
    this.partial = '';
    this.token = `token-${session.number}`;
    this.socket = net.connect(path.join(FOLDER, `${session.number}.sock`));
    this.socket.setEncoding('utf8');
    this.socket.on('data', (chunk) => this.receive(chunk));
    this.socket.on('error', () => this.socket.destroy());
    this.send({
      id: 1,
      method: 'execute_prompt',
      params: {
        session_token: this.token,
        session_id: String(session.number),
        task_id: `task-${session.number}`,
        agentic_tool: 'scripted',
        prompt: 'go',
        cwd: '/',
      },
    });
  }

  send(message) {
    this.socket.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n');
  }

  receive(chunk) {
    const text = this.partial === '' ? chunk : this.partial + chunk;
    const rows = [];
    let start = 0;
    for (let end; (end = text.indexOf('\n', start)) !== -1; start = end + 1) {
      const message = JSON.parse(text.slice(start, end));
      if (message.method === 'report_message') {
        rows.push(this.take(message.params));
      }
    }
    this.partial = start === text.length ? '' : text.slice(start);
    if (rows.length > 0) {
      this.deliver(rows);
    }
  }

  take(params) {
    if (params.session_token !== this.token) {
      throw new Error('a token of another executor');
    }
    const sequence = ++this.session.sequence;
    const body = JSON.stringify({
      sequence,
      type: params.event_type,
      task_id: params.task_id,
      data: params.event_data,
      created_at: Date.now(),
    });
    return { session: this.session.number, sequence, body, acknowledge: params.sequence };
  }

  deliver(rows) {
    if (storage !== null) {
      storage(rows);
    }
    for (const row of rows) {
      for (const client of this.session.clients) {
        client.send(row.body);
      }
    }
    this.send({
      method: 'ack_messages',
      params: { task_id: `task-${this.session.number}`, sequence: rows.at(-1).acknowledge },
    });
  }
}

function numberIn(url) {
  return Number(url.split('/')[2]);
}

const server = http.createServer((request, response) => {
  request.resume();
  request.on('end', () => {
    if (request.url === '/sessions') {
      const session = { number: sessions.length, sequence: 0, clients: new Set() };
      sessions.push(session);
      response.writeHead(201, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ session_id: String(session.number) }));
    } else {
      new Executor(sessions[numberIn(request.url)]);
      response.writeHead(202, { 'content-type': 'application/json' });
      response.end('{}');
    }
  });
});

new WebSocketServer({ server }).on('connection', (client, request) => {
  const { clients } = sessions[numberIn(request.url)];
  clients.add(client);
  client.on('close', () => clients.delete(client));
  client.on('error', () => client.terminate());
});

server.listen(Number(PORT), '127.0.0.1', 1024);
