package jsonbody_test

import (
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/gate/jsonbody"
)

// Threat: a client asks for more than the gate reserves, by a member that the
// service reads and the gate does not, or reads differently.
func TestBoundOfHostileBodies(t *testing.T) {
	t.Parallel()
	const missing, unclear = 50, -1
	members := []string{"max_completion_tokens", "max_tokens", "options.num_predict", "generationConfig.maxOutputTokens"}
	for body, answers := range map[string]int64{
		`{}`:                        missing,
		`{"max_tokens":7}`:          7,
		`{"max_tokens":null}`:       missing,
		`{"max_tokens":0}`:          missing, // Ollama has no bound then
		`{"max_tokens":-1}`:         unclear,
		`{"max_tokens":"7"}`:        unclear,
		`{"max_tokens":7.0}`:        unclear,
		`{"max_tokens":1e3}`:        unclear,
		`{"max_tokens":1000000000}`: unclear,
		`{"max_tokens":[7]}`:        unclear,
		`{"max_tokens":7,"max_completion_tokens":9}`:                        9,
		`{"max_tokens":9,"max_completion_tokens":7}`:                        9,
		`{"max_tokens":1,"max_tokens":9}`:                                   unclear,
		`{"max_tokens":1,"Max_Tokens":9}`:                                   unclear,
		`{"maxTokens":9}`:                                                   unclear,
		`{"max_tokens\u0000":1}`:                                            unclear,
		`{"m\u0061x_tokens":7}`:                                             7,
		`{"x":{"max_tokens":7}}`:                                            missing,
		`{"options":{"num_predict":7}}`:                                     7,
		`{"options":{"num_predict":-2}}`:                                    unclear,
		`{"options":{"Num_Predict":7}}`:                                     unclear,
		`{"Options":{"num_predict":7}}`:                                     unclear,
		`{"options":[{"num_predict":7}]}`:                                   missing,
		`{"options":"x"}`:                                                   missing,
		`{"generationConfig":{"maxOutputTokens":7}}`:                        7,
		`{"generation_config":{"maxOutputTokens":7}}`:                       unclear,
		`{"generationConfig":{"max_output_tokens":7}}`:                      unclear,
		`{"max_tokens":7,"n":3}`:                                            21,
		`{"max_tokens":7,"n":3,"best_of":5}`:                                35,
		`{"max_tokens":7,"n":null}`:                                         7,
		`{"max_tokens":7,"n":0}`:                                            7,
		`{"max_tokens":7,"n_cmpl":3}`:                                       21,
		`{"max_tokens":7,"n":1001}`:                                         unclear,
		`{"max_tokens":7,"N":3}`:                                            unclear,
		`{"max_tokens":7,"generationConfig":{"candidateCount":3}}`:          21,
		`{"max_tokens":7,"prompt":["a","b"]}`:                               14,
		`{"max_tokens":7,"n":2,"prompt":["a","b","c"]}`:                     42,
		`{"max_tokens":7,"prompt":[[1,2],[3]]}`:                             14,
		`{"max_tokens":7,"prompt":[1,2,3]}`:                                 7,
		`{"max_tokens":7,"prompt":[]}`:                                      7,
		`{"max_tokens":7,"Prompt":["a","b"]}`:                               unclear,
		`[{"max_tokens":7}]`:                                                unclear,
		`{"max_tokens":7}{}`:                                                unclear,
		"\ufeff" + `{"max_tokens":7}`:                                       unclear,
		`{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`: unclear,
	} {
		got, err := jsonbody.Bound([]byte(body), members, missing)
		want := int64(len(body)) + 2048 + int64(strings.Count(body, "{"))*16 + answers
		if answers == unclear {
			if err == nil {
				t.Errorf("%s: got %d, want an error", body, got)
			}
		} else if err != nil || got != want {
			t.Errorf("%s: got %d (%v), want %d", body, got, err, want)
		}
	}
}
