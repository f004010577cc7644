// What node-redis does with a request whose reply is lost, that is not answered, or that cannot be sent: with its own settings,
// and with those below, which docs/clients.md shows. settings.go says what the lines of the output mean.
const { RL_HOST, RL_PORT, RL_AWAY, RL_OTHER, RL_MODULE } = process.env
const { createClient } = await import(RL_MODULE)
const ms = Number(process.env.RL_MS) // 250 in an application

// settings
const settings = (host, port) => ({
  socket: {
    host, port,
    connectTimeout: ms,
    reconnectStrategy: (retries) => Math.min(100 * retries, 1000), // ms until it connects again
  },
  disableOfflineQueue: true, // while it reconnects, fail at once
})

// It waits for a reply forever. So give up: Promise.race([client.sendCommand(...), silence()])
const silence = () => new Promise((_, reject) => {
  setTimeout(reject, ms, new Error('no answer from rlproxy')).unref()
})
// end

async function dial(options) {
  const client = createClient(options)
  client.on('error', () => {})
  const connecting = client.connect()
  if (options.socket.port !== Number(RL_AWAY)) await connecting
  else connecting.catch(() => {})
  return client
}

async function ask(client, key, limit, ...more) {
  const began = Date.now()
  const call = client.sendCommand(['RL.SLIDE', key, `${limit}`, '3600', ...more])
  const bound = client.options.disableOfflineQueue ? [silence()] : []
  const outcome = await Promise.race([call, ...bound]).then((reply) => reply[1] === limit ? 'reply' : 'wrong', (err) => {
    console.error(key, err.message)
    return 'error'
  })
  console.log(key, outcome, Date.now() - began)
}

const own = { socket: { host: RL_HOST, port: Number(RL_PORT) } }
const at = (port) => dial(settings(RL_HOST, Number(port)))
await ask(await dial(own), 'lose-default', 5)
await ask(await dial(own), 'lose-once', 5, 'ONCE', 'x')
await ask(await at(RL_PORT), 'lose-set', 5)
await ask(await at(RL_PORT), 'lose-other', 5, 'ONCE', 'x')
await ask(await at(RL_OTHER), 'lose-other', 5, 'ONCE', 'x')
await ask(await at(RL_PORT), 'hang-set', 5)
await ask(await at(RL_AWAY), 'away-set', 5)
const client = await at(RL_PORT)
await ask(client, 'late-first', 9)
await ask(client, 'late-kept', 5)
process.exit()
