// A client of file format v1 in plain Node, which speaks as the JavaScript SDK
// 1.2 does (that version is in no registry): envelopes, both account headers, the
// format beside the ciphertext, deflate by the web's CompressionStream.
// node format1.mjs URL. Each line of standard input is a call in JSON, with "account",
// "key", "group", and "command" and "args": upload FILE NAME [deflate], or retrieve
// REFERENCE FILE. Answers each with one line of JSON.
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const url = process.argv[2];

async function post(path, headers, body) {
  const response = await fetch(url + path, {
    method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${path}: ${answer.error} (HTTP ${response.status})`);
  return answer;
}

// signIn returns how to call a tool.
async function signIn(account, key) {
  const { token } = await post('/api/auth/session-token', { 'x-api-key': key }, { account_id: account });
  return async (name, body) =>
    (await post('/tools/' + name, { authorization: 'Bearer ' + token, 'x-account-id': account, 'x-wallet-id': account }, body)).result;
}

// through pipes bytes through a CompressionStream or DecompressionStream.
async function through(bytes, stream) {
  return Buffer.from(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

const commandsOf = (tool, group) => ({
  async upload(file, name, compression) {
    const data = readFileSync(file);
    const { upload_id, key } = await tool('prepare_upload', { group_id: group, filename: name });
    const payload = compression ? await through(data, new CompressionStream(compression)) : data;
    const iv = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', Buffer.from(key, 'base64'), iv);
    const blob = Buffer.concat([iv, cipher.update(payload), cipher.final(), cipher.getAuthTag()]);
    const format = {
      version: 1, backend: 'fastfs', encryption: 'AES-256-GCM', wrapping: 'AES-GCM-keywrap',
      original_size: data.length, content_type: 'application/octet-stream', ...(compression ? { compression } : {}),
    };
    return tool('finalize_upload', {
      upload_id, encrypted_data: blob.toString('base64'), file_hash: createHash('sha256').update(data).digest('hex'), format,
    });
  },
  async retrieve(ref, file) {
    const { key, encrypted_b64, format } = await tool('prepare_retrieve', { group_id: group, ipfs_hash: ref });
    const blob = Buffer.from(encrypted_b64, 'base64');
    const decipher = createDecipheriv('aes-256-gcm', Buffer.from(key, 'base64'), blob.subarray(0, 12));
    decipher.setAuthTag(blob.subarray(-16));
    let data = Buffer.concat([decipher.update(blob.subarray(12, -16)), decipher.final()]);
    if (format?.compression) data = await through(data, new DecompressionStream(format.compression));
    writeFileSync(file, data);
    return { format };
  },
});

for await (const line of createInterface({ input: process.stdin })) {
  const { account, key, group, command, args } = JSON.parse(line);
  try {
    const tool = await signIn(account, key);
    process.stdout.write(JSON.stringify({ ok: await commandsOf(tool, group)[command](...args) }) + '\n');
  } catch (e) {
    process.stdout.write(JSON.stringify({ error: String(e.message) }) + '\n');
  }
}
