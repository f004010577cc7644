// A checkout with three limits at once: for the user, for the user's shop, and for everyone.
//
//     npm install
//     node checkout.mjs
//     curl -i -X POST -H 'X-User: 7' -H 'X-Shop: red' http://127.0.0.1:8080/
//
// One command asks about all three keys. It is admitted if each of them has room, and then charged to each;
// else nothing is charged anywhere. With one command after the other, a user whose shop has no room left
// would still be charged.
//
// RLPROXY names rlproxy's host:port, PORT the port to listen on. FAIL says what happens when the limits
// cannot be checked: OPEN serves the request, CLOSED refuses it. rlproxy applies it when a Redis is away; this
// program does when rlproxy is.
import { createServer } from 'node:http'
import { createClient } from 'redis'

const { FAIL = 'CLOSED', PORT = 8080, RLPROXY = '127.0.0.1:6380' } = process.env

const rl = createClient({
  url: `redis://${RLPROXY}`,
  disableOfflineQueue: true, // while it reconnects, fail at once
})
rl.on('error', (err) => console.error(err.message))
rl.connect().catch(() => {}) // not awaited: we also serve while rlproxy is away

/** Rejects after some ms: the client itself would wait for a reply forever. */
const silence = (ms) => new Promise((_, reject) => {
  setTimeout(reject, ms, new Error('no answer from rlproxy')).unref()
})

createServer(async (req, res) => {
  const limits = [
    ['the user', `user:${req.headers['x-user']}`, '3', '60'],
    ['the shop', `shop:${req.headers['x-shop']}`, '5', '60'],
    ['everyone', 'everyone', '1000', '60'],
  ]
  const parts = limits.map(([, key, limit, window]) => [key, limit, window, 'FAIL', FAIL])
  let replies
  try {
    const command = ['RL.SLIDE', ...parts.reduce((words, next) => [...words, 'AND', ...next])]
    replies = await Promise.race([rl.sendCommand(command), silence(1000)])
  } catch (err) {
    // No retry: the request may have been charged, and a multi-key request has no id.
    console.error(err.message)
    if (FAIL !== 'OPEN') return res.writeHead(503).end('try again later\n')
    return res.end('thank you\n')
  }
  const [[allowed]] = replies // the same for all keys
  if (allowed) return res.end('thank you\n')
  const waits = replies.map(([, , , retryAfter]) => retryAfter) // 0 for those that had room
  const longest = waits.indexOf(Math.max(...waits))
  res.writeHead(429, { 'Retry-After': Math.ceil(waits[longest] / 1000) })
  res.end(`too many checkouts of ${limits[longest][0]}\n`)
}).listen(PORT, '127.0.0.1')
