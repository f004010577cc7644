// At most 5 requests per 10 seconds from one address.
//
//     npm install
//     node limited.mjs          # then: curl -i http://127.0.0.1:8080/
//
// RLPROXY names rlproxy's host:port, PORT the port to listen on. FAIL says what happens
// when the limit cannot be checked: OPEN serves the request, CLOSED refuses it. rlproxy
// applies it when its Redis is away; this program does when rlproxy is.
// RateLimit and RateLimit-Policy are those of draft-ietf-httpapi-ratelimit-headers-11.
import { createServer } from 'node:http'
import { createClient } from 'redis'

const LIMIT = 5 // requests
const WINDOW = 10 // seconds
const { FAIL = 'OPEN', PORT = 8080, RLPROXY = '127.0.0.1:6380' } = process.env

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

/** Wraps a request handler. */
function limited(handler) {
  return async (req, res) => {
    let reply
    try {
      const key = `ip:${req.socket.remoteAddress}`
      const call = rl.sendCommand(['RL.SLIDE', key, `${LIMIT}`, `${WINDOW}`, 'FAIL', FAIL])
      reply = await Promise.race([call, silence(250)])
    } catch (err) {
      if (FAIL === 'OPEN') return handler(req, res)
      res.writeHead(503).end('try again later\n')
      return
    }
    const [allowed, limit, remaining, retryAfter] = reply
    const wait = Math.ceil(retryAfter / 1000) // seconds, when denied
    res.setHeader('RateLimit-Policy', `"default";q=${LIMIT};w=${WINDOW}`)
    if (remaining >= 0) { // -1: rlproxy could not ask its Redis
      res.setHeader('RateLimit', `"default";r=${remaining}` + (allowed ? '' : `;t=${wait}`))
      res.setHeader('X-RateLimit-Limit', limit)
      res.setHeader('X-RateLimit-Remaining', remaining)
    }
    if (allowed) return handler(req, res)
    res.setHeader('Retry-After', wait)
    res.setHeader('X-RateLimit-Reset', wait)
    res.writeHead(429).end('too many requests\n')
  }
}

createServer(limited((req, res) => res.end('hello\n'))).listen(PORT, '127.0.0.1')
