/* The route table: what the service offers, one row each. api_route_info, the router, README and OpenAPI follow it. */
#include "api/handlers.h"

#define PAGED "limit", "cursor", "fields"

static const char *const page_keys[] = {PAGED, NULL};
static const char *const revision_keys[] = {PAGED, "order", NULL};
static const char *const format_keys[] = {"format", NULL};
static const char *const evaluate_keys[] = {"store", "label", "depth", "format", NULL};
static const char *const frontier_keys[] = {"by", "cost", "format", NULL};
static const char *const evaluation_keys[] = {"workload", "model", "label",  "since", "until",
                                              PAGED,      "order", "format", NULL};
static const char *const scorecard_keys[] = {"workload", "model",       "profile", "verdict", "label",
                                             "stack",    "context.ref", "since",   "until",   "latest",
                                             PAGED,      "order",       "format",  NULL};

static const char *const measurement_keys[] = {"workload", "model", "profile", "stack", "since",
                                               "until",    PAGED,   "order",   NULL};
static const char *const calibration_keys[] = {"model", "profile", "stack", "since", "until", PAGED, "order", NULL};
static const char *const quality_keys[] = {"model", "stack", "benchmark", "since", "until", PAGED, "order", NULL};
static const char *const series_keys[] = {"workload", "profile", "metric", "bucket", "since",
                                          "until",    "by",      "source", "format", NULL};
static const char *const annotation_keys[] = {"workload", "since", "until", "limit", "fields", NULL};

static const char *const request_keys[] = {"limit", "cursor", "format", NULL};

static const char *const enforce_keys[] = {"enforce", NULL};
static const char *const check_keys[] = {"verdict", "since", PAGED, "order", NULL};
static const char *const knob_keys[] = {"workload", PAGED, NULL};
static const char *const as_of_keys[] = {"as_of", NULL};
static const char *const decision_keys[] = {"workload", "knob", "status", "as_of", "since",
                                            "until",    PAGED,  "order",  NULL};

static const char *const gpu_series_keys[] = {"metric", "since", "until", "step", NULL};

#define WRITES (ROUTE_WORKER | ROUTE_BODY)
#define EVALUATES (WRITES | ROUTE_COMPUTES)

const struct route api_routes[] = {
    {"GET", "/v1/scorecards/{id}", scorecards_get, SCOPE_READ, 0, "One scorecard.", format_keys},
    {"GET", "/v1/scorecards/{id}/explain", scorecards_explain_get, SCOPE_READ, ROUTE_WORKER,
     "What the figures of a scorecard are made of: operators, memory, latency and cost, each with its formula.",
     format_keys},
    {"GET", "/v1/scorecards/{id}/compare/{other}", scorecards_compare_get, SCOPE_READ, ROUTE_WORKER,
     "What differs between two scorecards, which inputs changed, and what each of them did.", format_keys},
    {"GET", "/v1/scorecards", scorecards_list, SCOPE_READ, ROUTE_WORKER, "Scorecards, newest first.", scorecard_keys},
    {"POST", "/v1/evaluations", evaluations_post, SCOPE_EVALUATE, EVALUATES | ROUTE_IDEMPOTENT_KEY,
     "Evaluate a workload sketch over candidate profiles.", evaluate_keys},
    {"GET", "/v1/evaluations", evaluations_list, SCOPE_READ, ROUTE_WORKER, "Evaluations, newest first.",
     evaluation_keys},
    {"GET", "/v1/evaluations/{id}", evaluations_get, SCOPE_READ, ROUTE_WORKER, "One evaluation with its scorecards.",
     format_keys},
    {"GET", "/v1/evaluations/{id}/sketch", evaluations_sketch_get, SCOPE_READ, 0, "The sketch as it was received.",
     NULL},
    {"POST", "/v1/measurements", measurements_post, SCOPE_EVALUATE, WRITES | ROUTE_IDEMPOTENT_KEY,
     "Store what was measured beside the prediction for the same sketch.", NULL},
    {"GET", "/v1/measurements", measurements_list, SCOPE_READ, ROUTE_WORKER, "Measurements, newest first.",
     measurement_keys},
    {"GET", "/v1/measurements/{id}", measurements_get, SCOPE_READ, 0, "One measurement.", NULL},
    {"POST", "/v1/calibrations", calibrations_post, SCOPE_REVIEW, WRITES | ROUTE_IDEMPOTENT_KEY,
     "Fit efficiency factors to measurements; evaluations that match use the newest.", NULL},
    {"GET", "/v1/calibrations", calibrations_list, SCOPE_READ, ROUTE_WORKER, "Calibrations, newest first.",
     calibration_keys},
    {"GET", "/v1/calibrations/{id}", calibrations_get, SCOPE_READ, 0, "One calibration.", NULL},
    {"DELETE", "/v1/calibrations/{id}", calibrations_delete, SCOPE_REVIEW, ROUTE_WORKER,
     "Retire a calibration; it is kept and not used any more.", NULL},
    {"POST", "/v1/quality-results", quality_results_post, SCOPE_EVALUATE, WRITES | ROUTE_IDEMPOTENT_KEY,
     "Store the score of a quality benchmark.", NULL},
    {"GET", "/v1/quality-results", quality_results_list, SCOPE_READ, ROUTE_WORKER, "Quality results, newest first.",
     quality_keys},
    {"GET", "/v1/series", series_get, SCOPE_READ, ROUTE_WORKER | ROUTE_METRICS,
     "Figures of scorecards, or of measurements, over time.", series_keys},
    {"GET", "/v1/annotations", annotations_get, SCOPE_READ, ROUTE_WORKER,
     "Decisions and changes of models, profiles, prices and stacks as dated marks.", annotation_keys},
    {"GET", "/v1/portfolio", portfolio_get, SCOPE_READ, ROUTE_WORKER,
     "What the official sketch of every workload costs, and what the bill waits for.", format_keys},
    {"POST", "/v1/frontiers", frontiers_post, SCOPE_EVALUATE, WRITES | ROUTE_IDEMPOTENT_KEY,
     "Every configuration that no other beats in throughput and interactivity; stores nothing.", frontier_keys},
    {"GET", "/v1/workloads", workloads_list, SCOPE_READ, ROUTE_WORKER, "Workloads with their official sketches.",
     page_keys},
    {"GET", "/v1/workloads/{name}", workloads_get, SCOPE_READ, 0, "One workload.", NULL},
    {"PUT", "/v1/workloads/{name}", workloads_put, SCOPE_REVIEW, WRITES, "Create or replace a workload.", NULL},
    {"DELETE", "/v1/workloads/{name}", workloads_delete, SCOPE_REVIEW, ROUTE_WORKER,
     "Delete a registered workload; its history stays.", NULL},
    {"GET", "/v1/models", models_list, SCOPE_READ, ROUTE_WORKER, "Stored models.", page_keys},
    {"POST", "/v1/models/inspect", models_inspect_post, SCOPE_READ, WRITES | ROUTE_IDEMPOTENT_KEY,
     "Read a model config and answer what follows from it; stores nothing.", NULL},
    {"GET", "/v1/models/{name}", models_get, SCOPE_READ, 0, "The newest revision of a model.", NULL},
    {"PUT", "/v1/models/{name}", models_put, SCOPE_REVIEW, WRITES, "Create or replace a model.", NULL},
    {"DELETE", "/v1/models/{name}", models_delete, SCOPE_REVIEW, ROUTE_WORKER,
     "Delete a model that no history refers to.", NULL},
    {"GET", "/v1/models/{name}/revisions", models_revisions_list, SCOPE_READ, ROUTE_WORKER,
     "All revisions of a model, newest first.", revision_keys},
    {"GET", "/v1/models/{name}/revisions/{n}", models_revisions_get, SCOPE_READ, 0, "One revision of a model.", NULL},
    {"GET", "/v1/profiles", profiles_list, SCOPE_READ, ROUTE_WORKER, "Stored hardware profiles.", page_keys},
    {"GET", "/v1/profiles/{name}", profiles_get, SCOPE_READ, 0, "The newest revision of a hardware profile.", NULL},
    {"PUT", "/v1/profiles/{name}", profiles_put, SCOPE_REVIEW, WRITES, "Create or replace a hardware profile.", NULL},
    {"DELETE", "/v1/profiles/{name}", profiles_delete, SCOPE_REVIEW, ROUTE_WORKER,
     "Delete a hardware profile that no history refers to.", NULL},
    {"GET", "/v1/profiles/{name}/revisions", profiles_revisions_list, SCOPE_READ, ROUTE_WORKER,
     "All revisions of a hardware profile, newest first.", revision_keys},
    {"GET", "/v1/profiles/{name}/revisions/{n}", profiles_revisions_get, SCOPE_READ, 0,
     "One revision of a hardware profile.", NULL},
    {"GET", "/v1/stacks", stacks_list, SCOPE_READ, ROUTE_WORKER, "Stored software stacks.", page_keys},
    {"GET", "/v1/stacks/{name}", stacks_get, SCOPE_READ, 0, "The newest revision of a stack.", NULL},
    {"PUT", "/v1/stacks/{name}", stacks_put, SCOPE_REVIEW, WRITES, "Create or replace a stack.", NULL},
    {"DELETE", "/v1/stacks/{name}", stacks_delete, SCOPE_REVIEW, ROUTE_WORKER,
     "Delete a stack that no history refers to.", NULL},
    {"GET", "/v1/stacks/{name}/revisions", stacks_revisions_list, SCOPE_READ, ROUTE_WORKER,
     "All revisions of a stack, newest first.", revision_keys},
    {"GET", "/v1/stacks/{name}/revisions/{n}", stacks_revisions_get, SCOPE_READ, 0, "One revision of a stack.", NULL},
    {"GET", "/v1/traces", traces_list, SCOPE_READ, ROUTE_WORKER, "Stored traces with their statistics.", page_keys},
    {"GET", "/v1/traces/{name}", traces_get, SCOPE_READ, 0, "The statistics of a trace.", NULL},
    {"PUT", "/v1/traces/{name}", traces_put, SCOPE_REVIEW, WRITES | ROUTE_BODY_TRACE,
     "Create or replace a trace, from CSV or JSON lines.", NULL},
    {"DELETE", "/v1/traces/{name}", traces_delete, SCOPE_REVIEW, ROUTE_WORKER,
     "Delete a trace that no history refers to.", NULL},
    {"GET", "/v1/traces/{name}/requests", traces_requests_list, SCOPE_READ, ROUTE_WORKER,
     "The requests of a trace in the order of their arrival.", request_keys},
    {"GET", "/v1/gates", gates_list, SCOPE_READ, ROUTE_WORKER, "Gates by name.", knob_keys},
    {"GET", "/v1/gates/{name}", gates_get, SCOPE_READ, ROUTE_WORKER,
     "One gate with its baselines and the waivers in force.", NULL},
    {"PUT", "/v1/gates/{name}", gates_put, SCOPE_REVIEW, WRITES,
     "Create or replace a gate: targets and largest regressions, signed off.", NULL},
    {"DELETE", "/v1/gates/{name}", gates_delete, SCOPE_REVIEW, ROUTE_WORKER,
     "Delete a gate with its baselines and waivers; its checks stay.", NULL},
    {"POST", "/v1/gates/{name}/baseline", gates_baseline_post, SCOPE_REVIEW, WRITES,
     "Choose the scorecard that regressions on its profile are held against.", NULL},
    {"POST", "/v1/gates/{name}/waivers", gates_waivers_post, SCOPE_REVIEW, WRITES | ROUTE_IDEMPOTENT_KEY,
     "Waive one metric of a gate until a date.", NULL},
    {"POST", "/v1/gates/{name}/checks", gates_checks_post, SCOPE_EVALUATE, EVALUATES | ROUTE_IDEMPOTENT_KEY,
     "Check a sketch; with enforce=true every verdict that must stop a pipeline is a 409.", enforce_keys},
    {"GET", "/v1/gates/{name}/checks", gates_checks_list, SCOPE_READ, ROUTE_WORKER, "Checks, newest first.",
     check_keys},
    {"GET", "/v1/knobs", knobs_list, SCOPE_READ, ROUTE_WORKER, "Registered knobs.", knob_keys},
    {"GET", "/v1/knobs/{workload}", knobs_of_workload_list, SCOPE_READ, ROUTE_WORKER, "The knobs of a workload.",
     page_keys},
    {"GET", "/v1/knobs/{workload}/{knob}", knobs_get, SCOPE_READ, 0, "One knob.", NULL},
    {"PUT", "/v1/knobs/{workload}/{knob}", knobs_put, SCOPE_REVIEW, WRITES,
     "Register a knob: its pointer into the sketch, owner, rollback plan, value and safe range.", NULL},
    {"DELETE", "/v1/knobs/{workload}/{knob}", knobs_delete, SCOPE_REVIEW, ROUTE_WORKER,
     "Delete a knob; decisions about it stay.", NULL},
    {"GET", "/v1/decisions", decisions_list, SCOPE_READ, ROUTE_WORKER,
     "Decisions, newest first; with as_of those in force on that day.", decision_keys},
    {"POST", "/v1/decisions", decisions_post, SCOPE_REVIEW, WRITES | ROUTE_IDEMPOTENT_KEY,
     "Record that a knob was turned: immutable.", NULL},
    {"GET", "/v1/decisions/{id}", decisions_get, SCOPE_READ, ROUTE_WORKER,
     "One decision with its status and its outcome.", as_of_keys},
    {"POST", "/v1/decisions/{id}/revert", decisions_revert_post, SCOPE_REVIEW, WRITES | ROUTE_IDEMPOTENT_KEY,
     "Take a decision back with a new one that supersedes it.", NULL},
    {"GET", "/v1/nodes", nodes_list, SCOPE_READ, ROUTE_WORKER, "Nodes whose exporters are scraped, and how that goes.",
     page_keys},
    {"GET", "/v1/nodes/{name}", nodes_get, SCOPE_READ, ROUTE_WORKER,
     "One node: its health, and the state of its GPUs and engines.", NULL},
    {"PUT", "/v1/nodes/{name}", nodes_put, SCOPE_ADMIN, WRITES,
     "Create or replace a node to scrape; its secrets are never shown.", NULL},
    {"DELETE", "/v1/nodes/{name}", nodes_delete, SCOPE_ADMIN, ROUTE_WORKER, "Delete a node with what was seen there.",
     NULL},
    {"GET", "/v1/nodes/{name}/gpus/{gpu}/series", nodes_gpu_series_get, SCOPE_READ, ROUTE_WORKER,
     "What was seen of a GPU over time, by minutes or hours.", gpu_series_keys},
    {"GET", "/v1/fleet", fleet_get, SCOPE_READ, ROUTE_WORKER,
     "Per profile what its devices do, per workload what was observed beside what was predicted.", NULL},
    {"GET", "/v1/drift", drift_get, SCOPE_READ, ROUTE_WORKER,
     "Per workload whether what is observed has moved, since when, and what may be behind it.", NULL},
    {"GET", "/v1/workloads/{name}/observed-sketch", workloads_observed_sketch_get, SCOPE_READ, ROUTE_WORKER,
     "The traffic block of a sketch, as the engines have seen it.", NULL},
    {"GET", "/v1/workloads/{name}/concurrency-limit", workloads_concurrency_limit_get, SCOPE_READ, ROUTE_WORKER,
     "The number of requests to let in at once, at the clocks that are sustained now, and why.", NULL},
    {"GET", "/v1/tokens", tokens_list, SCOPE_ADMIN, ROUTE_WORKER, "Tokens, newest first; their secrets are not kept.",
     page_keys},
    {"POST", "/v1/tokens", tokens_post, SCOPE_ADMIN, WRITES,
     "Make a token; it is shown once. A second one of the same name is a 409.", NULL},
    {"DELETE", "/v1/tokens/{name}", tokens_delete, SCOPE_ADMIN, ROUTE_WORKER, "Revoke a token.", NULL},
    {"GET", "/healthz", healthz_get, SCOPE_PUBLIC, 0, "200 while the process lives.", NULL},
    {"GET", "/readyz", readyz_get, SCOPE_PUBLIC, 0, "200 when ready, else 503 naming the failed check.", NULL},
    {"GET", "/version", version_get, SCOPE_PUBLIC, 0, "Versions of the service, its core and its schema.", NULL},
    {"GET", "/openapi.json", openapi_get, SCOPE_PUBLIC, 0, "This API as an OpenAPI 3.1 document.", NULL},
};
const size_t api_route_count = sizeof api_routes / sizeof api_routes[0];
