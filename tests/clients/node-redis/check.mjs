// node-redis: one connection, commands of the same tick go out together, commands
// wait in a queue while it reconnects. RL_MODULE names the version under test.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

const { RL_HOST, RL_PORT, RL_USERNAME, RL_PASSWORD, RL_PROTO, RL_DEFAULT, RL_MODULE } = process.env
const { createClient, ErrorReply } = await import(RL_MODULE)

const options = { socket: { host: RL_HOST, port: Number(RL_PORT), connectTimeout: 20_000 } } // its own 5 s are too short for a busy machine
if (RL_USERNAME) options.username = RL_USERNAME
if (RL_PASSWORD) options.password = RL_PASSWORD
if (!RL_DEFAULT) options.RESP = Number(RL_PROTO)

const client = createClient(options)
client.on('error', () => {}) // a lost connection is reported here, then retried
const call = (...args) => client.sendCommand(args.map(String))
const field = (map, name) => Array.isArray(map) ? map[map.indexOf(name) + 1] : map[name] // an array in RESP2

const checks = {
  async connect() {
    await client.connect()
    assert.equal(await client.ping(), 'PONG')
    assert.match(await call('CLIENT', 'INFO'), new RegExp(`resp=${RL_PROTO}\\b`))
  },

  async auth() {
    const socket = { ...options.socket, reconnectStrategy: false }
    const stranger = createClient({ ...options, socket, password: 'wrong' })
    stranger.on('error', () => {})
    await assert.rejects(stranger.connect(), /WRONGPASS invalid username-password pair/)
  },

  async slide() {
    for (const [allowed, remaining] of [[1, 2], [1, 1], [1, 0], [0, 0]]) {
      const reply = await call('RL.SLIDE', 'slide', 3, 3600)
      assert.equal(reply.length, 5)
      assert.ok(reply.every(Number.isInteger))
      assert.deepEqual(reply.slice(0, 3), [allowed, 3, remaining])
      assert.equal(reply[3] === 0, allowed === 1)
      assert.ok(reply[4] > 0 && reply[4] <= 3_600_001)
    }
  },

  async counter() {
    const reply = await call('RL.COUNTER', 'counter', 10, 3600, 'COST', 4)
    assert.deepEqual(reply.slice(0, 4), [1, 10, 6, 0])
  },

  async policy() {
    await call('RL.POLICY', 'SET', 'plan', 'SLIDE', 3, 3600)
    assert.deepEqual((await call('RL.CHECK', 'plan', 'k')).slice(0, 4), [1, 3, 2, 0])
    const plan = await call('RL.POLICY', 'GET', 'plan')
    assert.equal(field(plan, 'name'), 'plan')
    assert.equal(field(field(plan, 'limits')[0], 'limit'), 3)
  },

  async holds() {
    const ask = (line) => call(...line.split(' '))
    for (let i = 0; i < 2; i++) {
      assert.deepEqual((await ask('RL.SLIDE once 5 3600 ONCE a')).slice(0, 4), [1, 5, 4, 0])
    }
    assert.deepEqual((await ask('RL.RESERVE reserve 100 3600 COST 40 ID a')).slice(0, 4), [1, 100, 60, 0])
    assert.deepEqual(await ask('RL.SETTLE reserve a 15'), [1, 15, 25])
    assert.equal((await ask('RL.ACQUIRE slots 1 ID a'))[0], 1)
    assert.equal((await ask('RL.ACQUIRE slots 1 ID b'))[0], 0)
    assert.equal(await ask('RL.RELEASE slots a b'), 1)
    const keys = await ask('RL.SLIDE user 5 3600 AND everyone 9 3600')
    assert.deepEqual(keys.map((key) => key.slice(0, 4)), [[1, 5, 4, 0], [1, 9, 8, 0]])
  },

  async pipeline() {
    const sent = Array.from({ length: 20 }, () => call('RL.SLIDE', 'pipeline', 20, 3600))
    const remaining = (await Promise.all(sent)).map((reply) => reply[2])
    assert.deepEqual(remaining, [...Array(20).keys()].reverse())
  },

  async transaction() {
    const multi = client.multi()
    for (let i = 0; i < 3; i++) multi.addCommand(['RL.SLIDE', 'transaction', '2', '3600'])
    assert.deepEqual((await multi.exec()).map((reply) => reply[0]), [1, 1, 0])
  },

  async parallel() {
    const clients = await Promise.all(Array.from({ length: 50 }, async () => {
      const c = client.duplicate()
      c.on('error', () => {})
      await c.connect()
      return c
    }))
    const replies = await Promise.all(clients.map((c) => c.sendCommand(['RL.SLIDE', 'parallel', '30', '3600'])))
    assert.equal(replies.filter((reply) => reply[0] === 1).length, 30)
    await Promise.all(clients.map((c) => c.disconnect()))
  },

  async error() {
    await assert.rejects(call('RL.SLIDE', 'error', 0, 3600), (e) => {
      assert.ok(e instanceof ErrorReply)
      assert.equal(e.message, "ERR limit must be an integer between 1 and 1000000000000; it was '0'")
      return true
    })
  },

  async reconnect() {
    console.log('RESTART')
    const [line] = await once(process.stdin, 'data')
    assert.equal(String(line), 'OK\n')
    for (const deadline = Date.now() + 60_000; ;) {
      try {
        assert.equal((await call('RL.SLIDE', 'reconnect', 1, 3600))[0], 1)
        return
      } catch (e) {
        if (e instanceof assert.AssertionError || Date.now() > deadline) throw e
        await sleep(50)
      }
    }
  },
}

const manifest = new URL(`node_modules/${RL_MODULE}/package.json`, import.meta.url)
console.log('version', JSON.parse(readFileSync(manifest)).version)
let failed = 0
for (const [name, check] of Object.entries(checks)) {
  if (name === 'auth' && !RL_PASSWORD) continue
  try {
    await check()
    console.log('ok', name)
  } catch (e) {
    failed = 1
    console.log('FAIL', name, String(e).replaceAll('\n', ' '))
  }
}
process.exit(failed)
