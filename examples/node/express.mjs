// Limits by policy for Express: a request counts for its user and for the user's tenant.
//
//     rlproxy ../policies.conf
//     npm install
//     node express.mjs
//     curl -i -H 'X-User: 7' -H 'X-Tenant: red' http://127.0.0.1:8080/
//
// One command asks about both keys. A request is charged to both, or to none: a user whose tenant has no room left
// is not charged. rlproxy knows the limits, and says which headers to send.
//
// RLPROXY names rlproxy's host:port, PORT the port to listen on. FAIL says what happens when rlproxy does not answer
// within 250 ms, or has no such policy: OPEN serves the request, CLOSED refuses it. When only the Redis of rlproxy is
// away, the policies' FAIL decides.
import express from 'express'
import { createClient } from 'redis'

const { FAIL = 'OPEN', PORT = 8080, RLPROXY = '127.0.0.1:6380' } = process.env

const rl = createClient({
  url: `redis://${RLPROXY}`,
  RESP: 3, // RL.CHECK with DETAILS is then an object
  disableOfflineQueue: true, // while it reconnects, fail at once
})
rl.on('error', (err) => console.error(err.message))
rl.connect().catch(() => {}) // not awaited: we also serve while rlproxy is away

/** Rejects after some ms: the client itself would wait for a reply forever. */
const silence = (ms) => new Promise((_, reject) => {
  setTimeout(reject, ms, new Error('no answer from rlproxy')).unref()
})

/** Limits requests by policies. keys returns the policy and the key of each thing that a request counts for. */
function limited(keys) {
  return async (req, res, next) => {
    let check
    try {
      const words = keys(req).flatMap((key, i) => (i === 0 ? key : ['AND', ...key]))
      check = await Promise.race([rl.sendCommand(['RL.CHECK', ...words, 'DETAILS']), silence(250)])
    } catch (err) { // not asked again: the request may have been charged
      console.error(`no limit: ${err.message}`)
      return FAIL === 'OPEN' ? next() : res.status(503).send('try again later\n')
    }
    res.set(check.headers)
    if (check.allowed) return next()
    res.status(429).send(`too many requests of this ${check.policy}\n`)
  }
}

// In an application of yours these come from a session.
const userAndTenant = (req) => [['user', req.get('X-User') ?? 'nobody'], ['tenant', req.get('X-Tenant') ?? 'none']]

const app = express()
app.use(limited(userAndTenant))
app.all('/', (req, res) => res.send('hello\n'))
app.listen(PORT, '127.0.0.1')
