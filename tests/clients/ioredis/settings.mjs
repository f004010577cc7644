// What ioredis does with a request whose reply is lost, that is not answered, or that cannot be sent: with its own settings, and
// with those below, which docs/clients.md shows. settings.go says what the lines of the output mean.
import { once } from 'node:events'

const { RL_HOST, RL_PORT, RL_AWAY, RL_OTHER, RL_MODULE } = process.env
const { Redis } = await import(RL_MODULE)
const ms = Number(process.env.RL_MS) // 250 in an application

// settings
const settings = (host, port) => ({
  host, port,
  connectTimeout: ms,
  commandTimeout: ms, // else it waits for a reply forever
  enableOfflineQueue: false, // while it reconnects, fail at once
  autoResendUnfulfilledCommands: false, // else it sends again what may have been charged
  maxRetriesPerRequest: 0,
  retryStrategy: (times) => Math.min(100 * times, 1000), // ms until it connects again
})
// end

async function dial(options) {
  const redis = new Redis(options)
  redis.on('error', () => {})
  if (options.enableOfflineQueue === false && options.port !== Number(RL_AWAY)) await once(redis, 'ready')
  return redis
}

async function ask(redis, key, limit, ...more) {
  const began = Date.now()
  const outcome = await redis.call('RL.SLIDE', key, limit, 3600, ...more).then((reply) => reply[1] === limit ? 'reply' : 'wrong', (err) => {
    console.error(key, err.message)
    return 'error'
  })
  console.log(key, outcome, Date.now() - began)
}

const own = { host: RL_HOST, port: Number(RL_PORT) }
const at = (port) => dial(settings(RL_HOST, Number(port)))
await ask(await dial(own), 'lose-default', 5)
await ask(await dial(own), 'lose-once', 5, 'ONCE', 'x')
await ask(await at(RL_PORT), 'lose-set', 5)
await ask(await at(RL_PORT), 'lose-other', 5, 'ONCE', 'x')
await ask(await at(RL_OTHER), 'lose-other', 5, 'ONCE', 'x')
await ask(await at(RL_PORT), 'hang-set', 5)
await ask(await at(RL_AWAY), 'away-set', 5)
const redis = await at(RL_PORT)
await ask(redis, 'late-first', 9)
await ask(redis, 'late-kept', 5)
process.exit()
