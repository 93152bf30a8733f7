/* All handlers of the route table. Each reads its call, and either fills the answer or returns an error (with faults in
   the call where the input is wrong), from which api_handle makes the problem document. Private to api/. */
#ifndef FITD_API_HANDLERS_H
#define FITD_API_HANDLERS_H

#include "api/call.h"

/* operation_api.c */
api_handler healthz_get;
api_handler readyz_get;
api_handler version_get;
api_handler openapi_get;
api_handler metrics_get; /* metrics_api.c */

/* models_api.c */
api_handler models_list;
api_handler models_get;
api_handler models_put;
api_handler models_delete;
api_handler models_revisions_list;
api_handler models_revisions_get;
api_handler models_inspect_post;

/* profiles_api.c */
api_handler profiles_list;
api_handler profiles_get;
api_handler profiles_put;
api_handler profiles_delete;
api_handler profiles_revisions_list;
api_handler profiles_revisions_get;

/* compare_api.c */
api_handler scorecards_compare_get;

/* measurements_api.c, calibrations_api.c, quality_api.c */
api_handler measurements_post;
api_handler measurements_list;
api_handler measurements_get;
api_handler calibrations_post;
api_handler calibrations_list;
api_handler calibrations_get;
api_handler calibrations_delete;
api_handler quality_results_post;
api_handler quality_results_list;

/* series_api.c, annotations_api.c, portfolio_api.c */
api_handler series_get;
api_handler annotations_get;
api_handler portfolio_get;

/* stacks_api.c */
api_handler stacks_list;
api_handler stacks_get;
api_handler stacks_put;
api_handler stacks_delete;
api_handler stacks_revisions_list;
api_handler stacks_revisions_get;

/* traces_api.c */
api_handler traces_list;
api_handler traces_get;
api_handler traces_put;
api_handler traces_delete;
api_handler traces_requests_list;

/* workloads_api.c */
api_handler workloads_list;
api_handler workloads_get;
api_handler workloads_put;
api_handler workloads_delete;

/* evaluations_api.c */
api_handler evaluations_post;
api_handler evaluations_list;
api_handler evaluations_get;
api_handler evaluations_sketch_get;

/* scorecards_api.c */
api_handler scorecards_list;
api_handler scorecards_get;

/* frontiers_api.c */
api_handler frontiers_post;

/* what_ifs_api.c */
api_handler what_ifs_post;

/* advise_api.c */
api_handler advise_post;

/* explain_api.c */
api_handler scorecards_explain_get;

/* knobs_api.c */
api_handler knobs_list;
api_handler knobs_of_workload_list;
api_handler knobs_get;
api_handler knobs_put;
api_handler knobs_delete;

/* gates_api.c */
api_handler gates_list;
api_handler gates_get;
api_handler gates_put;
api_handler gates_delete;
api_handler gates_baseline_post;
api_handler gates_waivers_post;
api_handler gates_checks_post;
api_handler gates_checks_list;

/* reviews_api.c */
api_handler reviews_list;
api_handler reviews_get;
api_handler reviews_post;
api_handler reviews_refresh_post;
api_handler reviews_items_post;
api_handler reviews_item_post;
api_handler reviews_sign_off_post;
api_handler reviews_addenda_post;

/* decisions_api.c */
api_handler decisions_list;
api_handler decisions_get;
api_handler decisions_post;
api_handler decisions_revert_post;

/* nodes_api.c */
api_handler nodes_list;
api_handler nodes_get;
api_handler nodes_put;
api_handler nodes_delete;
api_handler nodes_gpu_series_get;

/* fleet_api.c, drift_api.c, observed_sketch.c, concurrency.c */
api_handler fleet_get;
api_handler drift_get;
api_handler workloads_observed_sketch_get;
api_handler workloads_concurrency_limit_get;

/* tokens_api.c */
api_handler tokens_list;
api_handler tokens_post;
api_handler tokens_delete;

#endif
