"""Rules on the call of fit: callbacks, class weights, validation, steps, the order of a pipeline."""
