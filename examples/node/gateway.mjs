// A gateway to a language model, where each customer has so many tokens a minute.
//
//     npm install
//     rlproxy ../policies.conf
//     node gateway.mjs
//     curl -N -H 'X-Api-Key: red' -d '{"prompt": "say it again", "max_tokens": 50}' http://127.0.0.1:8080/
//
// How many is the policy `tokens` of rlproxy's configuration. The cost of a response is known only afterwards. So the
// gateway holds the most that it can cost, which is the prompt and max_tokens, streams the response, and settles with
// what was used. The rest is free again at once.
//
// Both commands have the id of the reservation. If there is no reply, the gateway retries with the same id: nothing is
// held or charged twice. If the gateway dies, the reservation lapses after TTL and is charged in full.
//
// RLPROXY names rlproxy's host:port, PORT the port to listen on, TTL the seconds within which a response must
// have been streamed.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from 'redis'

const { PORT = 8080, RLPROXY = '127.0.0.1:6380', TTL = '60', SECONDS_PER_TOKEN = '0.02' } = process.env

const rl = createClient({
  url: `redis://${RLPROXY}`,
  disableOfflineQueue: true, // while it reconnects, fail at once
})
rl.on('error', (err) => console.error(err.message))
rl.connect().catch(() => {}) // not awaited: it goes on trying

/** Stands for the model's tokenizer. */
const count = (text) => text.split(/\s+/).filter(Boolean).length

/** Stands for the model: it repeats the prompt, one token at a time. */
async function * model (prompt, maxTokens) {
  for (const word of prompt.split(/\s+/).filter(Boolean).slice(0, maxTokens)) {
    await sleep(SECONDS_PER_TOKEN * 1000)
    yield word
  }
}

/** Rejects after some ms: the client itself would wait for a reply forever. */
const silence = (ms) => sleep(ms, null, { ref: false }).then(() => { throw new Error('no answer from rlproxy') })

/** Sends a command that has an id, and retries for `patience` seconds while nothing answers. */
async function ask (patience, ...command) {
  for (const deadline = Date.now() + patience * 1000; ;) {
    try {
      return await Promise.race([rl.sendCommand(command), silence(1000)])
    } catch (err) {
      if (err.message.startsWith('ERR') || Date.now() > deadline) throw err
      console.error(`retrying: ${command[0]}: ${err.message}`)
      await sleep(100)
    }
  }
}

async function settle (key, id, used) {
  try {
    const [settled] = await ask(Number(TTL), 'RL.SETTLE', key, id, `${used}`)
    if (!settled) console.error(`${id} of ${key} took longer than ${TTL} s: charged in full`)
  } catch (err) {
    console.error(`${id} of ${key} is not settled and will be charged in full: ${err.message}`)
  }
}

async function answer (req, res) {
  let body = ''
  for await (const piece of req) body += piece
  const { prompt, max_tokens: maxTokens } = JSON.parse(body)
  const customer = req.headers['x-api-key'] ?? 'anonymous'
  const key = `tokens:${customer}` // as all commands but RL.HOLD and RL.CHECK name it
  let used = count(prompt)
  // An id of our own. Had the client chosen it, it could use the same one for everything.
  const id = randomUUID()
  let reply
  try {
    reply = await ask(2, 'RL.HOLD', 'tokens', customer, 'COST', `${used + maxTokens}`, 'ID', id, 'TTL', `${TTL}s`, 'FAIL', 'ERROR')
  } catch (err) {
    console.error(`${key}: ${err.message}`)
    const tooMuch = err.message.includes('cost exceeds limit')
    res.writeHead(tooMuch ? 400 : 503).end(tooMuch ? 'too many tokens\n' : 'try again later\n')
    return
  }
  const [allowed, , , retryAfter] = reply
  if (!allowed) {
    res.writeHead(429, { 'Retry-After': Math.ceil(retryAfter / 1000) }).end('no tokens left\n')
    return
  }
  try {
    res.writeHead(200, { 'Content-Type': 'text/plain' })
    for await (const word of model(prompt, maxTokens)) {
      if (res.destroyed) break // the client has left, and pays for what the model has said so far
      used++
      res.write(`${word}\n`)
    }
    res.end()
  } finally {
    settle(key, id, used) // not awaited: the client need not wait
  }
}

createServer((req, res) => {
  answer(req, res).catch((err) => {
    console.error(err.message)
    res.destroy()
  })
}).listen(PORT, '127.0.0.1')
