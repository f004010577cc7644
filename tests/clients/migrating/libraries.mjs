// Each library asks eight times for a limit of five an hour. migrants.go says what the lines of the output mean.
import { once } from 'node:events'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { Redis } from 'ioredis'
import { RedisStore } from 'rate-limit-redis'
import { RateLimiterRedis } from 'rate-limiter-flexible'

const redis = new Redis({ host: process.env.RL_HOST, port: Number(process.env.RL_PORT) })
process.on('unhandledRejection', () => {}) // of a store that cannot load its script
console.error = () => {}

/** hit says whether a request is admitted, or rejects; counted returns what the library has counted. */
async function show(name, hit, counted) {
  try {
    let admitted = 0
    for (let i = 0; i < 8; i++) if (await hit()) admitted++
    console.log(name, admitted, await counted())
  } catch (err) {
    console.log(name, 'error', err.message.replace(/\s+/g, ' '))
  }
}

const limiter = new RateLimiterRedis({ storeClient: redis, points: 5, duration: 3600 })
await show('rate-limiter-flexible', () => limiter.consume('k').then(() => true, (err) => {
  if (err instanceof Error) throw err
  return false
}), async () => (await limiter.get('k')).consumedPoints)

const app = express()
app.use(rateLimit({
  windowMs: 3_600_000, limit: 5, keyGenerator: () => 'k', standardHeaders: 'draft-8',
  store: new RedisStore({ sendCommand: (...words) => redis.call(...words), prefix: 'erl:' }),
}))
app.get('/', (req, res) => res.send('hello\n'))
app.use((err, req, res, next) => res.status(500).send(err.message))
const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')
await show('express-rate-limit', async () => {
  const answer = await fetch(`http://127.0.0.1:${server.address().port}/`)
  if (answer.status === 500) throw new Error(await answer.text())
  return answer.status === 200
}, () => redis.get('erl:k'))
process.exit()
