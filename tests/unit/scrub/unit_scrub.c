/* Command lines as they are seen on real machines: secrets go, the rest stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>

#include "core/base/mem.h"
#include "core/scrub/scrub.h"

/* Arguments are parted by '|' here. */
static const struct {
	const char *in, *out; /* NULL: nothing changes */
} lines[] = {
	{"python|train.py|--wandb-key=0123456789abcdef0123456789abcdef01234567|--lr|3e-4",
	 "python|train.py|--wandb-key=***|--lr|3e-4"},
	{"python|train.py|--hf_token|hf_AbCdEfGh12345678901234|--epochs|3",
	 "python|train.py|--hf_token|***|--epochs|3"},
	{"python|-m|app|--openai-api-key|sk-proj-abc123DEF456ghi789",
	 "python|-m|app|--openai-api-key|***"},
	{"env|WANDB_API_KEY=0123456789abcdef|python|t.py", "env|WANDB_API_KEY=***|python|t.py"},
	{"env|HF_TOKEN=hf_x y|AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY|x",
	 "env|HF_TOKEN=***|AWS_SECRET_ACCESS_KEY=***|x"},
	{"aws|configure|set|aws_access_key_id|AKIAIOSFODNN7EXAMPLE",
	 "aws|configure|set|aws_access_key_id|***"},
	{"mysql|-u|root|-pS3cret!|-h|db", "mysql|-u|root|-p***|-h|db"},
	{"/usr/bin/mysqldump|--password=a b|--all-databases",
	 "/usr/bin/mysqldump|--password=***|--all-databases"},
	{"mysql|-u|root|--password|-h|db", "mysql|-u|root|--password|-h|db"},
	{"sshpass|-p|hunter2|ssh|-p|2222|me@node", "sshpass|-p|***|ssh|-p|2222|me@node"},
	{"curl|-u|alice:pa:ss|https://example.org/", "curl|-u|alice:***|https://example.org/"},
	{"curl|--user=alice:x|-sS|http://h/", "curl|--user=alice:***|-sS|http://h/"},
	{"curl|-H|Authorization: Bearer abc.def.ghi|https://h/",
	 "curl|-H|Authorization:***|https://h/"},
	{"curl|-H|X-Api-Key: 12345abc|-d|{\"password\": \"a b\", \"user\": \"me\"}|http://h/",
	 "curl|-H|X-Api-Key:***|-d|{\"password\": *** \"user\": \"me\"}|http://h/"},
	{"curl|https://api/v1?user=me&token=abc123&page=2",
	 "curl|https://api/v1?user=me&token=***&page=2"},
	{"git|clone|https://bob:ghp_abcdefghij0123456789@github.com/a/b.git",
	 "git|clone|https://bob:***@github.com/a/b.git"},
	{"git|clone|https://ghp_abcdefghij0123456789@github.com/a/b",
	 "git|clone|https://***@github.com/a/b"},
	{"git|-c|http.extraheader=AUTHORIZATION: basic dXNlcjpwYXNz|fetch",
	 "git|-c|http.extraheader=AUTHORIZATION: basic ***|fetch"},
	{"psql|postgresql://app:p@ss/w0rd@db:5432/x?sslmode=require",
	 "psql|postgresql://app:***@db:5432/x?sslmode=require"},
	{"psql|host=db password=s3cret user=app", "psql|host=db password=*** user=app"},
	{"mongosh|mongodb+srv://u:pw@cluster0.example.net/test",
	 "mongosh|mongodb+srv://u:***@cluster0.example.net/test"},
	{"redis-cli|-h|cache|-a|topsecret|PING", "redis-cli|-h|cache|-a|***|PING"},
	{"docker|login|-u|me|-p|abc|registry.example.com:5000/team/project",
	 "docker|login|-u|me|-p|***|registry.example.com:5000/team/project"},
	{"docker|run|-p|8080:80|-e|POSTGRES_PASSWORD=x1y2|-e|TZ=UTC|pg:15",
	 "docker|run|-p|8080:80|-e|POSTGRES_PASSWORD=***|-e|TZ=UTC|pg:15"},
	{"kubectl|create|secret|generic|x|--from-literal=password=a,b&c",
	 "kubectl|create|secret|generic|x|--from-literal=password=***"},
	{"helm|install|x|--set|db.password=abc,db.user=me", "helm|install|x|--set|db.password=***"},
	{"java|-Dspring.datasource.password=abc|-Xmx4g|-jar|a.jar",
	 "java|-Dspring.datasource.password=***|-Xmx4g|-jar|a.jar"},
	{"java|-Djavax.net.ssl.keyStorePassword=changeit|-jar|a.jar",
	 "java|-Djavax.net.ssl.keyStorePassword=***|-jar|a.jar"},
	{"sh|-c|PGPASSWORD='a b' psql -h db && mysql -pabc x; echo done",
	 "sh|-c|PGPASSWORD=*** psql -h db && mysql -p*** x; echo done"},
	{"bash|-lc|python t.py --api-key \"k 1\" --lr 0.1",
	 "bash|-lc|python t.py --api-key *** --lr 0.1"},
	{"sh|-c|curl -H \"Authorization: token abcdef\" http://h/ | tee log",
	 "sh|-c|curl -H \"Authorization:***\" http://h/ | tee log"},
	{"openssl|enc|-aes-256-cbc|-k|mypass|-in|f", "openssl|enc|-aes-256-cbc|-k|***|-in|f"},
	{"openssl|pkcs12|-passin|pass:abc|-in|f", "openssl|pkcs12|-passin|***|-in|f"},
	{"ldapsearch|-D|cn=admin|-w|abc|-b|dc=x", "ldapsearch|-D|cn=admin|-w|***|-b|dc=x"},
	{"smbclient|//h/s|-U|me%pw", "smbclient|//h/s|-U|me%***"},
	{"wandb|login|0123456789abcdef0123456789abcdef01234567", "wandb|login|***"},
	{"huggingface-cli|login|--token|abc123", "huggingface-cli|login|--token|***"},
	{"vllm|serve|m|--api-key|EMPTY1|--port|8000", "vllm|serve|m|--api-key|***|--port|8000"},
	{"bot|--slack|xoxb-123456789012-abcdefghij", "bot|--slack|***"},
	{"x|DefaultEndpointsProtocol=https;AccountName=a;AccountKey=abc123==;EndpointSuffix=core",
	 "x|DefaultEndpointsProtocol=https;AccountName=a;AccountKey=***;EndpointSuffix=core"},
	{"postgres: app db 10.0.0.1 idle password=abc",
	 "postgres: app db 10.0.0.1 idle password=***"},
	{"pip|install|https://u:pw@host/a@2.0.whl", "pip|install|https://u:***@2.0.whl"},
	/* Nothing of these is a secret. */
	{"torchrun|--nproc-per-node=8|train.py|--max-new-tokens|128|--tokenizer|gpt2|--pad_token|<"
	 "pad>|--eos-token-id=2",
	 NULL},
	{"python|pretrain.py|--moe-token-dispatcher-type|alltoall|--token-dropout|0.1|--num-tokens="
	 "1000",
	 NULL},
	{"python|t.py|--use-auth-token|--model|meta-llama/Llama-3-8B|--use_token=true", NULL},
	{"gpuscope|agent|--tls-key|/etc/x/key.pem|--token-file|/run/t|--password-file=/run/p",
	 NULL},
	{"nginx: worker process", NULL},
	{"ssh|-i|/home/me/.ssh/id_rsa|-p|2222|git@github.com", NULL},
	{"python|x.py|--commit|0123456789abcdef0123456789abcdef01234567", NULL},
	{"sort|-k|2|--key=2|--private-key|./k/id.pem", NULL},
	{"ffmpeg|-pass|1|-i|a.mp4|--sort-key=name", NULL},
	{"pg_dump|--no-password|-h|db|postgres://app@db:5432/x", NULL},
	{"wget|http://host:8080/path/a@2.0.tgz|ftp://host/|http://[::1]:80/@x", NULL},
	{"docker|run|-p|80:80|nvcr.io/nvidia/pytorch:24.05-py3|bash|-c|python -c 'print(1)'", NULL},
	{"pip|install|sk-learn-something-long-enough", NULL},
	{"", NULL},
};

static void secrets_go_and_the_rest_stays(void **state)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(lines); i++) {
		char in[1024], out[1024];
		size_t n = strlen(lines[i].in), written;

		memcpy(in, lines[i].in, n + 1);
		for (char *c = in; *c; c++)
			if (*c == '|' && c[1] != ' ')
				*c = '\0';
		written = gs_scrub_arguments(in, n ? n + 1 : 0, out, sizeof(out));
		for (size_t k = 0; k + 1 < written; k++)
			if (!out[k])
				out[k] = '|';
		out[written ? written - 1 : 0] = '\0';
		assert_string_equal(out, lines[i].out ? lines[i].out : lines[i].in);
	}
}

/* Arguments that were joined: blanks within a value end it, all else is as before. */
static void joined_lines_too(void **state)
{
	static const char *const texts[][2] = {
		{"python t.py --wandb-key=abc123 --lr 1", "python t.py --wandb-key=*** --lr 1"},
		{"curl -H Authorization: Bearer abc http://u:p@h/",
		 "curl -H Authorization: Bearer *** http://u:***@h/"},
		{"mysql -psecret don't --token abc it's", "mysql -p*** don't --token *** it's"},
		{"a  b\tc", "a  b\tc"},
	};
	char out[256], again[256];

	for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
		gs_scrub_text(texts[i][0], out, sizeof(out));
		assert_string_equal(out, texts[i][1]);
		gs_scrub_text(out, again, sizeof(again));
		assert_string_equal(again, out); /* twice is as good as once */
	}
}

static void little_room_is_enough(void **state)
{
	static const char in[] = "mysql\0-psecret\0--token\0abcdef";
	char all[64], out[64];
	size_t whole = gs_scrub_arguments(in, sizeof(in), all, sizeof(all));

	for (size_t room = 0; room < whole; room++) {
		memset(out, 'x', sizeof(out));
		assert_int_equal(gs_scrub_arguments(in, sizeof(in), out, room), room);
		assert_memory_equal(out, all, room);
		assert_int_equal(out[room], 'x');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(secrets_go_and_the_rest_stays),
		cmocka_unit_test(joined_lines_too),
		cmocka_unit_test(little_room_is_enough),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
