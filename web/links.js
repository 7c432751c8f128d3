/* Links from one thing to the page of another. */
import { h } from './dom.js'

export const gpuLink = g => h('a', { href: `#/gpu/${g.node}/${g.gpu}` }, `${g.node_name} GPU ${g.gpu}`)
export const nodeLink = n => h('a', { href: `#/node/${n.node || n.id}` }, n.node_name || n.name)
export const processLink = p => h('a', { href: `#/process/${p.node}/${p.pid}` }, `${p.name || '?'} (${p.pid})`)
