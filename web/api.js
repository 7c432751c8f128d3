/* Requests to the head or agent that serves this page, and its events. */
export class ApiError extends Error {
	constructor(status, message) {
		super(message)
		this.status = status
	}
}

/* Who answers: a head, or an agent. */
export let peer = 'head'
export const setPeer = name => { peer = name }

const KEY = 'gpuscope-token'

function headers(more) {
	const token = sessionStorage.getItem(KEY)
	return { Accept: 'application/json', ...(token ? { Authorization: `Bearer ${token}` } : {}), ...more }
}

export const hasToken = () => sessionStorage.getItem(KEY) !== null

export function setToken(token) {
	if (token) sessionStorage.setItem(KEY, token)
	else sessionStorage.removeItem(KEY)
}

async function ask(path, options) {
	let reply
	try {
		reply = await fetch(path, options)
	} catch (error) {
		if (error.name === 'AbortError') throw error
		throw new ApiError(0, `the ${peer} does not answer`)
	}
	if (reply.ok) return reply
	let message = reply.statusText
	try {
		message = (await reply.json()).error.message
	} catch { /* not ours: a proxy's */ }
	throw new ApiError(reply.status, message)
}

export const get = async (path, signal) => (await ask(path, { headers: headers(), signal })).json()

export async function send(method, path, body) {
	const has = body !== undefined
	const reply = await ask(path, { method, headers: headers(has ? { 'Content-Type': 'application/json' } : {}), body: has ? JSON.stringify(body) : undefined })
	return reply.json()
}

export const blob = async (path, signal) => (await ask(path, { headers: headers(), signal })).blob()

/* As a file: a link could not carry the token. */
export async function download(path, name) {
	const link = document.createElement('a')
	link.href = URL.createObjectURL(await blob(path))
	link.download = name
	link.click()
	setTimeout(() => URL.revokeObjectURL(link.href), 10000)
}

/* Server-sent events, by fetch: EventSource could not carry the token. Retries for ever; report(true)
 * when the head answers, report(false, seconds, error) when it does not. */
export async function listen(onEvent, report) {
	for (let wait = 1; ; wait = Math.min(wait * 2, 15)) {
		let failure = null
		try {
			const reply = await ask('/api/v1/events', { headers: headers({ Accept: 'text/event-stream' }) })
			const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader()
			let text = ''
			for (;;) {
				const { value, done } = await reader.read()
				if (done) break
				wait = 1
				text += value
				const pieces = text.split('\n\n')
				text = pieces.pop()
				for (const piece of pieces) {
					const event = /^event: (.*)$/m.exec(piece), data = /^data: (.*)$/m.exec(piece)
					if (event && data) {
						report(true)
						onEvent(event[1], JSON.parse(data[1]))
					}
				}
			}
		} catch (error) {
			failure = error
		}
		report(false, wait, failure)
		await new Promise(done => setTimeout(done, wait * 1000))
	}
}
